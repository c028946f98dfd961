"""The command `deadline-perception label` on real files with an exported detector of random weights."""

import json
import re
import signal

import cv2
import numpy as np
import pytest
from annotated_images import noise, write_coco
from made_up_models import small_yolo

from deadline_perception.extras.data.bag import write_bag
from deadline_perception.extras.data.coco import read_coco
from deadline_perception.extras.data.source import open_source
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


def write_images(folder, count=6):
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        cv2.imwrite(str(folder / f'{number}.png'), noise(number))
    return folder


def annotated(folder, names=('sign',)):
    """Six images with one box of the first class each; without classes, with none."""
    boxes = [(number, 0, (5, 5, 20, 20)) for number in range(6)] if names else []
    return write_coco(
        folder / 'train.json', {f'{number}.png': noise(number) for number in range(6)}, boxes, names
    )


def label(detector, *words):
    return main(['label', *map(str, words), '--model', str(detector), *SURE])


def test_a_folder_of_images_becomes_coco_with_paths_from_the_file(detector, tmp_path, capsys):
    folder = write_images(tmp_path / 'camera')
    out = tmp_path / 'labels' / 'labels.json'
    assert label(detector, folder, '--out', out) == 0
    content = json.loads(out.read_text())
    assert [row['file_name'] for row in content['images']] == [
        f'../camera/{n}.png' for n in range(6)
    ]
    sequence = read_coco(out)
    assert set(sequence.class_names) == {'vehicle', 'person'}
    assert (
        sum(len(frame.ground_truth) for frame in sequence.frames) == len(content['annotations']) > 0
    )
    assert all('score' in row for row in content['annotations'])
    told = capsys.readouterr()
    assert '6/6 images, 0 left out' in told.err and 'wrote' in told.out
    assert (
        'threshold not measured, 0.2 taken, for want of 30 known objects: vehicle, person'
        in told.out
    )
    assert [file.name for file in out.parent.iterdir()] == ['labels.json']  # no state is left


def test_frames_of_a_video_are_written_as_images(detector, tmp_path):
    video = cv2.VideoWriter(
        str(tmp_path / 'drive.avi'), cv2.VideoWriter_fourcc(*'MJPG'), 10.0, (90, 60)
    )
    for number in range(8):
        video.write(noise(number))
    video.release()
    assert (
        label(detector, tmp_path / 'drive.avi', '--rate', '5', '--out', tmp_path / 'labels.json')
        == 0
    )
    sequence = read_coco(tmp_path / 'labels.json')
    assert [frame.name for frame in sequence.frames] == [
        f'labels/drive/drive_{n:06d}.jpg' for n in (0, 2, 4, 6)
    ]
    assert label(detector, tmp_path / 'drive.avi', '--rate', '5', '--out', tmp_path / 'bare') == 0
    assert (tmp_path / 'bare').is_file()
    assert (tmp_path / 'bare.images' / 'drive' / 'drive_000000.jpg').is_file()


def test_frames_of_a_bag_go_into_the_stated_folder(detector, tmp_path):
    bag = tmp_path / 'drive.mcap'
    write_bag(open_source(str(write_images(tmp_path / 'camera'))), bag)
    assert (
        label(
            *(
                f'{detector} {bag} --out {tmp_path / "labels.json"} --images '
                f'{tmp_path / "frames"} --image-type png'
            ).split()
        )
        == 0
    )
    sequence = read_coco(tmp_path / 'labels.json')
    assert sequence.frames[1].name == 'frames/drive/drive_000001.png'
    np.testing.assert_array_equal(
        sequence.frames[1].load_bgr(), cv2.imread(str(tmp_path / 'camera' / '1.png'))
    )


def test_thresholds_are_chosen_on_annotated_images(detector, tmp_path, capsys):
    """The surest of what the detector said of 40 images is taken for the truth: all its boxes from there on hit."""
    images = write_images(tmp_path / 'known', 40)
    assert label(detector, images, '--out', images / 'val.json', '--only', 'person') == 0
    content = json.loads((images / 'val.json').read_text())
    rows = sorted(content['annotations'], key=lambda row: -row['score'])
    least = rows[39]['score']
    content['annotations'] = [row for row in rows if row['score'] >= least]
    (images / 'val.json').write_text(json.dumps(content))
    capsys.readouterr()
    other = write_images(tmp_path / 'camera', 3)
    assert (
        label(
            *(
                f'{detector} {other} --data {images / "val.json"} --only person --out '
                f'{tmp_path / "labels.json"}'
            ).split()
        )
        == 0
    )
    told = capsys.readouterr().out
    row = re.search(
        r'person \S +0 \S +\d+ \S +\d+ \S +([\d.]+) \S +([\d.]+) \S +([\d.]+) \S +(\d+)', told
    )
    assert row, told
    threshold, precision, recall, objects = map(float, row.groups())
    assert threshold == pytest.approx(least, abs=0.006) and precision == recall == 1.0
    assert objects == len(content['annotations'])


def test_an_interrupted_run_goes_on_and_writes_the_same(detector, tmp_path, capsys, monkeypatch):
    from deadline_perception.tools import label as command

    folder = write_images(tmp_path / 'camera', 12)
    assert label(detector, folder, '--out', tmp_path / 'whole' / 'labels.json') == 0
    out = tmp_path / 'parts' / 'labels.json'

    def told_in_its_sixth(stop) -> bool:
        if (
            stop.signal_number is None
            and out.with_name('labels.json.partial').read_text().count('\n') > 5
        ):
            signal.raise_signal(signal.SIGTERM)
        return stop.signal_number is not None

    with monkeypatch.context() as patch:
        patch.setattr(command.StopRequest, '__call__', told_in_its_sixth)
        assert label(detector, folder, '--out', out) == 128 + signal.SIGTERM
    assert 'stopped at image 5 of 12; the same command goes on' in capsys.readouterr().out
    assert not out.exists()
    assert label(detector, folder, '--out', out, '--only', 'person') == 1
    assert 'was begun with other images, models or classes' in capsys.readouterr().err
    assert label(detector, folder, '--out', out) == 0
    assert '12/12 images' in capsys.readouterr().err
    assert out.read_text() == (tmp_path / 'whole' / 'labels.json').read_text()


@pytest.mark.parametrize(
    ('words', 'said'),
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
    write_images(tmp_path / 'camera')
    annotated(tmp_path / 'data')
    assert re.search(
        said, refusal('label', 'camera', 'data/train.json', *words, '--model', detector)
    )
    assert not (tmp_path / 'labels.json').exists()


def test_sources_that_mark_all_that_the_models_find_are_refused(detector, tmp_path, refusal):
    source = annotated(tmp_path / 'data', ('person', 'vehicle'))
    assert 'all that the models find is marked already: vehicle, person' in refusal(
        'label', source, '--model', detector, '--out', tmp_path / 'labels.json'
    )


def test_a_coco_file_without_classes_is_labelled_as_images_are(detector, tmp_path):
    source = annotated(tmp_path / 'data', ())
    assert label(detector, source, '--out', tmp_path / 'labels.json') == 0
    assert set(read_coco(tmp_path / 'labels.json').class_names) == {'vehicle', 'person'}
