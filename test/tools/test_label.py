"""The command `deadline-perception label` on real files with an exported detector of random weights."""

import json
import re
import signal

import cv2
import numpy as np
import pytest
from annotated_images import write_coco
from made_up_models import small_yolo
from plain_images import noise, write_images
from read_sequences import frame_names, object_counts, opened

from deadline_perception.extras.data.bag import write_bag
from deadline_perception.extras.data.coco import read_coco
from deadline_perception.extras.external_models.model_set.set_file import ModelSpec, SetFile
from deadline_perception.tools.command_line import main

pytest.importorskip('openvino')
SURE = ['--min-score', '0.2']  # its scores mean nothing


@pytest.fixture(scope='module')
def detector(tmp_path_factory):
    """A set file as `adopt` writes it, of one small YOLO that knows vehicle and person."""
    folder = tmp_path_factory.mktemp('detector')
    file = small_yolo(folder, name='yolo')
    spec = ModelSpec(
        'yolo', 'onnx', file, ('vehicle', 'person', None), outputs='yolov8', resize='letterbox'
    )
    SetFile((spec,)).save(folder / 'set.yaml')
    return folder / 'set.yaml'


def photographs(folder, count=6):
    return write_images(folder, [noise(60, 90, number) for number in range(count)])


def annotated(folder, names=('sign',)):
    """Six images with one box of the first class each; without classes, with none."""
    boxes = [(number, 0, (5, 5, 20, 20)) for number in range(6)] if names else []
    images = {f'{number}.png': noise(60, 90, number) for number in range(6)}
    return write_coco(folder / 'train.json', images, boxes, names)


@pytest.fixture
def label(detector, capsys):
    """Runs the command, which ends with this status; gives what it prints and says."""

    def run(*words, status=0):
        assert main(['label', *map(str, words), '--model', str(detector), *SURE]) == status
        return capsys.readouterr()

    return run


def test_frames_of_a_bag_go_into_the_stated_folder(label, tmp_path):
    bag = tmp_path / 'drive.mcap'
    frames = tmp_path / 'frames'
    write_bag(opened(photographs(tmp_path / 'camera')), bag)
    out = tmp_path / 'labels.json'
    label(bag, '--out', out, '--images', frames, '--image-type', 'png')
    frame = read_coco(out).frames[1]
    assert frame.name == 'frames/drive/drive_000001.png'
    np.testing.assert_array_equal(frame.load_bgr(), cv2.imread(str(tmp_path / 'camera/1.png')))


def test_thresholds_are_chosen_on_annotated_images(label, tmp_path):
    """The surest of what the detector said of 40 images is taken for the truth: all its boxes from there on hit."""
    images = photographs(tmp_path / 'known', 40)
    out = tmp_path / 'labels.json'
    known = images / 'val.json'
    label(images, '--out', known, '--only', 'person')
    content = json.loads(known.read_text())
    rows = sorted(content['annotations'], key=lambda row: -row['score'])
    least = rows[39]['score']
    content['annotations'] = [row for row in rows if row['score'] >= least]
    known.write_text(json.dumps(content))
    other = photographs(tmp_path / 'camera', 3)
    told = label(other, '--data', known, '--only', 'person', '--out', out).out
    row = re.search(
        r'person \S +0 \S +\d+ \S +\d+ \S +([\d.]+) \S +([\d.]+) \S +([\d.]+) \S +(\d+)', told
    )
    assert row, told
    threshold, precision, recall, objects = map(float, row.groups())
    assert threshold == pytest.approx(least, abs=0.006) and precision == recall == 1.0
    assert objects == len(content['annotations'])


def test_an_interrupted_run_goes_on_and_writes_the_same(label, tmp_path, monkeypatch):
    from deadline_perception.tools import label as command

    folder = photographs(tmp_path / 'camera', 12)
    whole, out = (tmp_path / name / 'labels.json' for name in ('whole', 'parts'))
    told = label(folder, '--out', whole)
    assert '12/12 images, 0 left out' in told.err
    said = 'threshold not measured, 0.2 taken, for want of 30 known objects: vehicle, person'
    assert said in told.out
    sequence, rows = read_coco(whole), json.loads(whole.read_text())['annotations']
    assert frame_names(sequence)[0] == '../camera/0.png'  # from the file
    assert set(sequence.class_names) == {'vehicle', 'person'}
    assert sum(object_counts(sequence)) == len(rows) > 0 and all('score' in row for row in rows)
    assert [file.name for file in whole.parent.iterdir()] == ['labels.json']  # no state is left

    def told_in_its_sixth(stop) -> bool:
        seen = out.with_name('labels.json.partial').read_text().count('\n')
        if stop.signal_number is None and seen > 5:
            signal.raise_signal(signal.SIGTERM)
        return stop.signal_number is not None

    with monkeypatch.context() as patch:
        patch.setattr(command.StopRequest, '__call__', told_in_its_sixth)
        told = label(folder, '--out', out, status=128 + signal.SIGTERM)
    assert 'stopped at image 5 of 12; the same command goes on' in told.out
    assert not out.exists()
    told = label(folder, '--out', out, '--only', 'person', status=1)
    assert 'was begun with other images, models or classes' in told.err
    assert '12/12 images' in label(folder, '--out', out).err
    assert out.read_text() == whole.read_text()


@pytest.mark.parametrize(
    'words, said',
    [
        (['--only', 'dragon'], 'no model knows dragon; expected some of vehicle, person. Bring'),
        (['--min-score', '0'], '--min-score is 0.0, expected 0.001 to 1'),
        (['--data', 'camera'], '--data camera has no annotations, expected images with known'),
        (['--out', 'data/train.json'], '--out is data/train.json, as another file of this command'),
        (['camera'], 'image .*camera/0.png occurs in two sources, expected it once'),
    ],
)
def test_arguments_that_make_no_sense_are_refused_in_one_line(
    detector, tmp_path, refusal, monkeypatch, words, said
):
    monkeypatch.chdir(tmp_path)
    photographs(tmp_path / 'camera')
    annotated(tmp_path / 'data')
    words = ['camera', 'data/train.json', *words, '--model', detector]
    assert re.search(said, refusal('label', *words))
    assert not (tmp_path / 'labels.json').exists()


def test_sources_that_mark_all_that_the_models_find_are_refused(label, tmp_path):
    source = annotated(tmp_path / 'data', ('person', 'vehicle'))
    out = tmp_path / 'labels.json'
    told = label(source, '--out', out, status=1)
    assert 'all that the models find is marked already: vehicle, person' in told.err
