"""Every family of heads: a file of its structure, and boxes worked out by hand."""

import math
import re

import numpy as np
import pytest
from exported_files import SIZE, exported
from plain_images import grey

from deadline_perception.extras.external_models.exported.families import NAMES
from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.model_set.onnx_detector import OnnxDetector

CLASSES = ('car', 'person', 'bike')
IMAGE = grey(*SIZE)
BOX = [24.0, 16.0, 56.0, 48.0]  # centre (40, 32), 32 px wide and high
FRACTION = [24 / 96, 16 / 64, 56 / 96, 48 / 64]
CENTRE = [40.0, 32.0, 32.0, 32.0]


def found(tmp_path, outputs, classes=CLASSES, *, stated='', **options):
    """Name of the reading, boxes, scores and labels of a file."""
    file = exported(tmp_path / 'net.xml', outputs, **options)
    detector = OnnxDetector(file, classes, stated=stated)
    detections = detector.detect(IMAGE)
    names = [detector.class_names[label] for label in detections.labels]
    boxes = detections.boxes_xyxy_px.tolist()
    scores = detections.scores.tolist()
    return detector.head.name, boxes, scores, names


def approx(values):
    """Nested lists, within a hundredth of a px."""
    return [pytest.approx(row, abs=1e-2) for row in values]


def one(name, score, label, box):
    """What `found` gives of one object."""
    return name, approx([box]), [pytest.approx(score)], [label]


def rows_with(first: list[float], count: int, background: float = 0.0) -> np.ndarray:
    """`[count, values]` of which the first row is given and the others are background."""
    rows = np.full((count, len(first)), background, np.float32)
    rows[0] = first
    return rows


def yolox_rows():
    """In row 2, column 2 of stride 16: (0.5 + 2) * 16 = 40 and (0 + 2) * 16 = 32 px; exp(log 2) * 16 = 32 px."""
    rows = np.zeros((8 * 12 + 4 * 6 + 2 * 3, 5 + 3), np.float32)  # strides 8, 16, 32 of 64 x 96 px
    rows[8 * 12 + 2 * 6 + 2] = [0.5, 0.0, math.log(2), math.log(2), 0.9, 0.0, 1.0, 0.0]
    return {'output': rows[None]}


def anchor_maps():
    """YOLOv5's before its decoding: anchor 62 x 45 px of stride 16, row 1 and column 2."""
    maps = {
        f'map{stride}': np.full((1, 3, 64 // stride, 96 // stride, 8), -9.0, np.float32)
        for stride in (8, 16, 32)
    }
    maps['map16'][0, 1, 1, 2] = [0.0, 0.0, 0.0, 0.0, 9.0, 9.0, -9.0, -9.0]
    return maps


def distributions(joined):
    """NanoDet's, in row 1 and column 2 of stride 16: one cell to the left, up and right, two down."""
    cells = {8: 96, 16: 24, 32: 6}
    scores = {stride: np.zeros((count, 3), np.float32) for stride, count in cells.items()}
    distances = {stride: np.zeros((count, 32), np.float32) for stride, count in cells.items()}
    scores[16][8] = [0.0, 0.0, 0.9]
    for side, bins in enumerate((1, 1, 1, 2)):
        distances[16][8, side * 8 + bins] = 50.0
    if joined:
        every = np.concatenate([np.hstack((scores[stride], distances[stride])) for stride in cells])
        return {'output': every[None]}
    outputs = {f'cls_pred_stride_{stride}': scores[stride][None] for stride in cells}
    return outputs | {f'dis_pred_stride_{stride}': distances[stride][None] for stride in cells}


def objects(*columns, count=20):
    return {'output0': rows_with(columns, count)[None]}


def counted(count, pre):
    """The second row is what an earlier image left there."""
    names = count, f'{pre}boxes', f'{pre}scores', f'{pre}classes'
    boxes, scores = np.float32([[BOX, [0, 0, 9, 9]]]), np.float32([[0.6, 0.5]])
    return dict(zip(names, (np.int64([[1]]), boxes, scores, np.int64([[1, 2]]))))


def ssd_rows():
    rows = np.zeros((1, 1, 5, 7), np.float32)
    rows[0, 0, :3] = [0, 1, 0.8, *FRACTION], [-1, 0, 0, 0, 0, 0, 0], [0, 1, 0.7, *FRACTION]
    return {'detection_out': rows}


FRACTIONS = [40 / 96, 32 / 64, 32 / 96, 32 / 64]
DETR = 'boxes corners px'
QUERIES = {
    'labels': np.int64([[1, 0]]),
    'boxes': np.float32([[BOX, BOX]]),
    'scores': np.float32([[0.6, 0.001]]),
}
SCORED = {'boxes': np.float32([[*BOX, 0.7], [0, 0, 1, 1, 0.0]]), 'labels': np.int64([2, 0])}
PADDLE = {'result': rows_with([1.0, 0.7, *BOX], 20), 'count': np.int64([20])}
PADDLE_INPUTS = {'scale_factor': ((1, 2), 'f32'), 'im_shape': ((1, 2), 'f32')}
PADDLE_FILE = {'stated': 'detections label-first', 'further': PADDLE_INPUTS}


def detr(names, nothing, sure):
    """Before its selection."""
    logits = np.tile(np.float32(nothing), (1, 20, 1))
    boxes = np.tile(np.float32([0.9, 0.9, 0.05, 0.05]), (1, 20, 1))
    logits[0, 4], boxes[0, 4] = sure, FRACTIONS
    return dict(zip(names, (logits, boxes)))


def tensorflow(*further):
    """Boxes are fractions with rows first; perhaps beside those before suppression."""
    left, top, right, bottom = FRACTION
    return {
        'detection_boxes': np.float32([[[top, left, bottom, right], [0, 0, 0, 0]]]),
        'detection_classes': np.float32([[2.0, 1.0]]),
        'detection_scores': np.float32([[0.7, 0.0]]),
        'num_detections': np.float32([1.0]),
        **{f'raw_detection_{name}': np.zeros((1, 20, 4), np.float32) for name in further},
    }


def fastestdet():
    """Row 4 and column 5 of 8 x 12 cells: the centre is at 5 / 12 and 4 / 8, the sizes are sigmoids."""
    values = np.zeros((1, 8, 8, 12), np.float32)
    third = math.log((32 / 96) / (1 - 32 / 96))
    values[0, :, 4, 5] = [1.0, 0.0, 0.0, third, 0.0, 0.0, 1.0, 0.0]
    return {'out': values}


LOGITS = detr(('pred_logits', 'pred_boxes'), [-9.0] * 3, [-9.0, 2.0, -9.0])
WITH_NOTHING = detr(('logits', 'boxes'), [0.0, 0.0, 0.0, 9.0], [0.0, 0.0, 3.0, 0.0])
SOFTMAX = 'class_scores centres fraction softmax background-last'
TENSORFLOW = 'boxes rows-first fraction', 0.7, 'bike', {'kind': 'u8', 'by_planes': False}
NANODET = 'distribution middle probability'
# Outputs, reading, score and class, and what else is stated of the file or by the user.
HEADS = [
    *(
        (objects(*box, 0.1, 0.8, 0.0, count=30), f'yolov8 {form}', 0.8, 'person', 'stated')
        for box, form in (
            (BOX, 'corners px'),
            (FRACTION, 'corners fraction'),
            (FRACTIONS, 'fraction'),
        )
    ),
    (objects(*CENTRE, 0.5, 0.2, 0.0, 0.8, count=30), 'yolov5 px', 0.4, 'bike', {}),
    (yolox_rows(), 'yolox', 0.9, 'person', {}),
    (objects(*BOX, 0.7, 2.0), 'detections px', 0.7, 'bike', 'stated'),
    (objects(*BOX, 0.7, 2.0), 'detections px', 0.7, 'bike', {'kind': 'u8', 'by_planes': False}),
    (objects(2.0, 0.7, *BOX), 'detections label-first px', 0.7, 'bike', 'stated'),
    (objects(0.0, *BOX, 2.0, 0.7), 'detections image-first px', 0.7, 'bike', 'stated'),
    (objects(*CENTRE, 0.7, 2.0), 'detections centres px', 0.7, 'bike', 'stated'),
    (PADDLE, 'detections label-first px', 0.7, 'person', PADDLE_FILE),
    *(
        (QUERIES, DETR, 0.6, 'person', {'further': {name: (shape, kind)}})
        for name, shape, kind in (
            ('orig_target_sizes', (1, 2), 'i64'),
            ('pixel_mask', (1, *SIZE), 'i64'),
            ('pixel_mask', (1, *SIZE), 'f32'),
        )
    ),
    *(
        (counted(f'num_{count}', pre), DETR, 0.6, 'person', {})
        for count, pre in (('dets', 'det_'), ('detections', ''), ('predictions', 'pred_'))
    ),
    (SCORED, DETR, 0.7, 'bike', {}),
    (ssd_rows(), 'ssd', 0.8, 'car', {'classes': (None, 'car', 'person')}),
    (LOGITS, 'class_scores centres fraction sigmoid', 1 / (1 + math.exp(-2)), 'person', {}),
    (WITH_NOTHING, SOFTMAX, math.exp(3) / (math.exp(3) + 3), 'bike', 'stated'),
    (tensorflow(), *TENSORFLOW),
    (tensorflow('boxes', 'scores'), *TENSORFLOW),
    (fastestdet(), 'cells', 1.0, 'person', {}),
    # Centre (2 * 0.5 - 0.5 + 2) * 16 = 40 and 24 px.
    (
        anchor_maps(),
        'maps',
        (1 + math.exp(-9)) ** -2,
        'car',
        {'box': [40 - 31, 24 - 22.5, 40 + 31, 24 + 22.5]},
    ),
    # The middle of the cell is (40, 24) px.
    *(
        (distributions(joined), NANODET, 0.9, 'bike', {'box': [24.0, 8.0, 56.0, 56.0]})
        for joined in (False, True)
    ),
]


@pytest.mark.parametrize('outputs, reading, score, label, options', HEADS)
def test_the_box_of_each_head_is_as_worked_out(tmp_path, outputs, reading, score, label, options):
    options = {'stated': reading} if options == 'stated' else dict(options)
    box = options.pop('box', BOX)
    assert found(tmp_path, outputs, **options) == one(reading, score, label, box)


def test_every_head_has_boxes_worked_out_and_a_row_in_the_document(repository):
    rows = re.findall(
        r'^\| `(\w+)', (repository / 'docs' / 'own_models.md').read_text('utf-8'), re.M
    )
    assert {*NAMES} <= {*rows} and {*NAMES} == {reading.split()[0] for _, reading, *_ in HEADS}


@pytest.mark.parametrize('wrong', [math.nan, math.inf, -math.inf])
def test_nan_is_an_error_and_no_empty_road(tmp_path, wrong):
    rows = rows_with([*CENTRE, 0.1, wrong, 0.0], 30)
    with pytest.raises(ModelError, match='net gave NaN or infinity, expected finite outputs'):
        found(tmp_path, {'output0': rows.T[None]})


def test_a_head_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / 'my_heads.py').write_text(
        'import numpy as np\n'
        'def decode(outputs, size):\n'
        '    rows = outputs[0][0]\n'
        '    return rows[:, :4] * size[1], rows[:, 4], rows[:, 5].astype(int)\n'
        'def wrong(outputs, size):\n'
        '    return outputs[0]\n'
    )
    file = exported(tmp_path / 'own.xml', {'odd': np.float32([[[0.25, 0.0, 0.5, 0.25, 0.9, 1.0]]])})
    with pytest.raises(ModelError, match='a file alone does not start; if you trust it, name'):
        OnnxDetector(file, CLASSES, decode='my_heads:decode')
    monkeypatch.setenv(
        'DEADLINE_PERCEPTION_CALLABLES', 'other:f, my_heads:decode,my_heads:wrong,my_heads:none'
    )
    monkeypatch.syspath_prepend(tmp_path)
    detections = OnnxDetector(file, CLASSES, decode='my_heads:decode').detect(IMAGE)
    assert detections.boxes_xyxy_px.tolist() == approx([[24.0, 0.0, 48.0, 24.0]])
    assert detections.labels.tolist() == [1]
    with pytest.raises(ModelError, match='my_heads:wrong returned ndarray, expected boxes, scores'):
        OnnxDetector(file, CLASSES, decode='my_heads:wrong').detect(IMAGE)
    with pytest.raises(ModelError, match='cannot be imported'):
        OnnxDetector(file, CLASSES, decode='my_heads:none')
    with pytest.raises(ModelError, match='expected package.module:function'):
        OnnxDetector(file, CLASSES, decode='os.system("x")')
