"""What exported files say of themselves, as Ultralytics 8.4 and OpenVINO's Model API write it."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from exported_files import exported
from plain_images import grey

from deadline_perception.extras.external_models.exported.coco_names import COCO_NAMES
from deadline_perception.extras.external_models.exported.exported_file import read_exported
from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.exported.stated_facts import (
    StatedFacts,
    read_stated,
)
from deadline_perception.extras.external_models.model_set.exported_model import (
    exported_spec,
    load_exported,
    read_facts,
)
from deadline_perception.extras.external_models.model_set.onnx_detector import OnnxDetector

ROWS = {'output0': np.zeros((1, 20, 6), np.float32)}
FACTS = {
    'names': {0: 'car', 1: 'traffic light'},
    'imgsz': [384, 640],
    'stride': 64,
    'task': 'detect',
    'end2end': True,
    'args': {'nms': False},
}
UNDERSCORED = ' '.join(name.replace(' ', '_') for name in COCO_NAMES)
READ = StatedFacts(('car', 'traffic light'), (384, 640), 64, 'detections')


class NoFacts:
    """A model of which OpenVINO passes nothing on."""

    def has_rt_info(self, path: list[str]) -> bool:
        return False


def tflite(file: Path, name: str, content: str | bytes) -> Path:
    """A network with an archive behind it, which holds one file."""
    stream = io.BytesIO(b'TFL3' * 100)
    with zipfile.ZipFile(stream, 'a', zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    file.write_bytes(stream.getvalue())
    return file


def found(network):
    """Names of its classes, and those of the objects that it finds."""
    labels = network.detect(grey(64, 96)).labels
    return network.class_names, [network.class_names[label] for label in labels]


@pytest.mark.parametrize(
    'facts, read',
    [(FACTS, READ), ({'head': 'Detect', 'end2end': False}, StatedFacts(outputs='yolov8 fraction'))],
)
def test_facts_at_the_end_of_a_tflite_file(tmp_path, facts, read):
    file = tflite(tmp_path / 'net.tflite', 'metadata.json', json.dumps(facts))
    assert read_stated(NoFacts(), file) == read


@pytest.mark.parametrize(
    'name, content',
    [
        ('metadata.json', b'{'),
        ('metadata.json', b'[1]'),
        ('metadata.json', b' ' * (2**20 + 1)),
        ('other.txt', b'x'),
    ],
)
def test_what_is_no_metadata_counts_as_unsaid(tmp_path, name, content):
    (tmp_path / 'metadata.yaml').write_text('names: &a [*a]')
    assert read_stated(NoFacts(), tflite(tmp_path / 'net.tflite', name, content)) == StatedFacts()
    assert read_stated(NoFacts(), tmp_path / 'net.xml') == StatedFacts()


def test_a_file_that_says_how_it_ends_is_read_so(tmp_path):
    """Ten rows of 6 values may be objects, or two classes of a YOLOv8 that has few cells."""
    rows = {'output0': np.zeros((1, 10, 6), np.float32)}
    plain = OnnxDetector(exported(tmp_path / 'plain.xml', rows), ('a', 'b'))
    assert plain.head.name == 'yolov8 px'
    for number, facts in enumerate(({'end2end': 'True'}, {'args': "{'nms': True}"})):
        facts['names'] = "{0: 'a', 1: 'b'}"
        file = exported(tmp_path / f'net{number}.xml', rows, facts=facts)
        assert OnnxDetector(file, ('a', 'b')).head.name == 'detections px'
        assert read_facts(file).labels == () and exported_spec(file).classes == ('a', 'b')


def test_another_task_is_refused(tmp_path):
    (tmp_path / 'metadata.yaml').write_text('task: segment')
    with pytest.raises(ModelError, match="net.xml says that its task is 'segment'"):
        read_exported(exported(tmp_path / 'net.xml', ROWS))


@pytest.mark.parametrize(
    'facts, stated',
    [
        # A size may be one side, and both beside it.
        ({'imgsz': '640'}, StatedFacts((), (640, 640))),
        (
            {'imgsz': '640', 'imgsz_h': '384', 'imgsz_w': '640'},
            StatedFacts((), (384, 640)),
        ),
        # Names of the Model API have spaces where they are those of COCO.
        ({'labels': UNDERSCORED}, StatedFacts(COCO_NAMES)),
        ({'labels': 'traffic_light car'}, StatedFacts(('traffic_light', 'car'))),
    ],
)
def test_facts_of_a_file_are_read(tmp_path, facts, stated):
    assert read_exported(exported(tmp_path / 'net.xml', ROWS, facts=facts)).stated == stated


@pytest.mark.parametrize(
    'names, read',
    [
        ("{2: 'c', 0: 'a', 1: 'b'}", ('a', 'b', 'c')),
        ("{'2': 'c', '0': 'a', '1': 'b'}", ('a', 'b', 'c')),
        ('{"10": "k", "9": "j"}', tuple(f'class_{number}' for number in range(9)) + ('j', 'k')),
        ("{0: 'a', 2: 'c'}", ('a', 'class_1', 'c')),
        ("{'car': 0, 'person': 1}", ()),
        ("{-1: 'a', 0: 'b'}", ()),
        ('{{1}}', ()),
        ('{[1]: 2}', ()),
        pytest.param('{"' + '9' * 5000 + '": "a"}', (), id='a label of 5000 digits'),
        pytest.param('{0x' + 'f' * 5000 + ': "a"}', (), id='a long number for a label'),
        pytest.param('[0x' + 'f' * 5000 + ', "a"]', (), id='a long number for a name'),
        ("{0: 'a', '0': 'b'}", ()),
        ('{1000000000: "a"}', ()),
        ('{True: "a"}', ()),
        ("{0: 'car', 1: 'car'}", ()),
        ('{0: 5}', ()),
        ("{0: '\\x1b[31m'}", ()),
        ("__import__('os').abort()", ()),
        ('[' * 5000, ()),
    ],
)
def test_names_go_by_their_numbers_and_not_by_the_order_of_the_text(tmp_path, names, read):
    file = exported(tmp_path / 'net.xml', ROWS, facts={'names': names, 'imgsz': '{{1}}'})
    assert read_exported(file).stated.class_names == read


@pytest.mark.parametrize(
    'classes, names, said, name',
    [
        # Names that are not as many as the outputs are taken by number.
        (4, "{0: 'a', 1: 'b', 2: 'c'}", ('a', 'b', 'c', 'class_3'), 'b'),
        (4, "{0: 'a', 1: 'b', 3: 'd'}", ('a', 'b', 'class_2', 'd'), 'b'),
        (4, "['a', 'b', 'c', 'd', 'e']", ('a', 'b', 'c', 'd'), 'b'),
        # Five and six values may also be a box with its score, and with its class.
        (1, "{0: 'a'}", ('a',), 'a'),
        (2, "{0: 'a', 1: 'b'}", ('a', 'b'), 'b'),
    ],
)
def test_names_of_a_file_are_those_of_its_outputs(tmp_path, classes, names, said, name):
    output = np.zeros((1, 4 + classes, 200 if classes == 4 else 126))
    output[0, :4, 3], output[0, 4 + said.index(name), 3] = (40, 30, 20, 10), 0.9
    file = exported(tmp_path / 'net.xml', {'output0': output}, facts={'names': names})
    assert found(load_exported(file)) == (said, [name])


def test_classes_that_a_file_does_not_name_are_named_by_who_loads_it(tmp_path):
    output = np.zeros((1, 8, 200))  # four classes
    file = exported(tmp_path / 'net.xml', {'output0': output})
    with pytest.raises(ModelError, match=r'name them with --classes \(in Python classes=\).*coco'):
        load_exported(file)
    for classes in (('a', 'b', 'c', 'd'), 'a, b, c, d'):
        assert load_exported(file, classes=classes).class_names == ('a', 'b', 'c', 'd')
    with pytest.raises(ValueError, match="classes is 'none.txt', a file that does not exist"):
        load_exported(file, classes='none.txt')


@pytest.mark.parametrize('classes', ['', 'coco'])
@pytest.mark.parametrize(
    'columns, column, name',
    [(80, 16, 'dog'), (91, 1, 'person'), (91, 18, 'dog'), (91, 90, 'toothbrush')],
)
def test_columns_of_coco_may_have_the_gaps_of_its_numbers(tmp_path, classes, columns, column, name):
    """RF-DETR and DETR have as many columns as the largest number."""
    scores = np.full((1, 300, columns), -6.0)
    scores[0, 0, column] = 4.0
    boxes = np.random.default_rng(0).uniform(0.2, 0.8, (1, 300, 4))
    file = exported(tmp_path / 'a.xml', {'dets': boxes, 'labels': scores})
    assert found(load_exported(file, classes=classes))[1] == [name]


@pytest.mark.parametrize('is_named', [False, True])
def test_numbers_of_coco_that_a_file_leaves_open_are_told(tmp_path, caplog, is_named):
    rows = np.float32([[[10, 10, 30, 30, 0.9, 18]]])
    facts = {'names': str(list(COCO_NAMES))} if is_named else {}
    file = exported(tmp_path / 'a.xml', {'o': rows}, facts=facts)
    load_exported(file, classes='' if is_named else 'coco')
    assert ('every object has a wrong name' in caplog.text) is not is_named


def test_a_list_that_is_one_class_short_is_refused(tmp_path):
    """Columns of boxes are never those of YOLOX, which would find nothing."""
    file = exported(tmp_path / 'a.xml', {'o': np.zeros((1, 84, 126))})
    with pytest.raises(ModelError, match='By their shape they are of 80 classes'):
        load_exported(file, classes=list(COCO_NAMES[:79]))
    with pytest.raises(ValueError, match='classes is 80, expected'):
        load_exported(file, classes=80)
