"""Every family of heads: a file of its structure, and boxes worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip('openvino')

from exported_files import SIZE, exported  # noqa: E402

from deadline_perception.extras.external_models.exported.model_error import ModelError  # noqa: E402
from deadline_perception.extras.external_models.model_set.onnx_detector import OnnxDetector  # noqa: E402

CLASSES = ('car', 'person', 'bike')
IMAGE = np.zeros((*SIZE, 3), np.uint8)
BOX = [24.0, 16.0, 56.0, 48.0]  # centre (40, 32), 32 px wide and high
FRACTION = [24 / 96, 16 / 64, 56 / 96, 48 / 64]
CENTRE = [40.0, 32.0, 32.0, 32.0]


def found(tmp_path, outputs, classes=CLASSES, *, name='net', stated='', **options):
    """Name of the reading, boxes, scores and labels of a file."""
    detector = OnnxDetector(
        exported(tmp_path / f'{name}.xml', outputs, **options), classes, stated=stated
    )
    detections = detector.detect(IMAGE)
    return (
        detector.head.name,
        detections.boxes_xyxy_px.tolist(),
        detections.scores.tolist(),
        [detector.class_names[label] for label in detections.labels],
    )


def approx(values):
    """Nested lists, within a hundredth of a px."""
    return [pytest.approx(row, abs=1e-2) for row in values]


def rows_with(first: list[float], count: int, background: float = 0.0) -> np.ndarray:
    """`[count, values]` of which the first row is given and the others are background."""
    rows = np.full((count, len(first)), background, np.float32)
    rows[0] = first
    return rows


@pytest.mark.parametrize('transposed', [False, True])
def test_yolov8(tmp_path, transposed):
    rows = rows_with([*CENTRE, 0.1, 0.8, 0.0], 30)
    rows[1] = [41.0, 32.0, 32.0, 32.0, 0.0, 0.6, 0.0]  # the same object, suppressed
    values = rows[None] if transposed else rows.T[None]
    expected = ('yolov8 px', approx([BOX]), [pytest.approx(0.8)], ['person'])
    assert found(tmp_path, {'output0': values}) == expected


@pytest.mark.parametrize(
    ('box', 'name'),
    [
        (BOX, 'yolov8 corners px'),
        (FRACTION, 'yolov8 corners fraction'),
        ([40 / 96, 32 / 64, 32 / 96, 32 / 64], 'yolov8 fraction'),
    ],
)
def test_boxes_of_yolov8_in_other_forms(tmp_path, box, name):
    rows = rows_with([*box, 0.1, 0.8, 0.0], 30)
    read = found(tmp_path, {'output': rows[None]}, stated=name)
    assert read == (name, approx([BOX]), [pytest.approx(0.8)], ['person'])


def test_yolov5(tmp_path):
    rows = rows_with([*CENTRE, 0.5, 0.2, 0.0, 0.8], 30)
    expected = ('yolov5 px', approx([BOX]), [pytest.approx(0.4)], ['bike'])
    assert found(tmp_path, {'output': rows[None]}) == expected


def test_yolox_is_decoded_from_its_grid(tmp_path):
    cells = 8 * 12 + 4 * 6 + 2 * 3  # strides 8, 16 and 32 of 64 x 96 px
    rows = np.zeros((cells, 5 + 3), np.float32)
    # In row 2, column 2 of stride 16: (0.5 + 2) * 16 = 40 and (0 + 2) * 16 = 32 px; exp(log 2) * 16 = 32 px.
    rows[8 * 12 + 2 * 6 + 2] = [0.5, 0.0, math.log(2), math.log(2), 0.9, 0.0, 1.0, 0.0]
    expected = ('yolox', approx([BOX]), [pytest.approx(0.9)], ['person'])
    assert found(tmp_path, {'output': rows[None]}) == expected


def test_yolov5_before_its_decoding(tmp_path):
    maps = {
        f'map{stride}': np.full((1, 3, 64 // stride, 96 // stride, 8), -9.0, np.float32)
        for stride in (8, 16, 32)
    }
    # Anchor 62 x 45 px of stride 16, row 1 and column 2: centre (2 * 0.5 - 0.5 + 2) * 16 = 40 and 24 px.
    maps['map16'][0, 1, 1, 2] = [0.0, 0.0, 0.0, 0.0, 9.0, 9.0, -9.0, -9.0]
    name, boxes, scores, labels = found(tmp_path, maps)
    assert name == 'maps' and labels == ['car'] and scores[0] == pytest.approx(1.0, abs=1e-3)
    assert boxes == approx([[40 - 31, 24 - 22.5, 40 + 31, 24 + 22.5]])


def test_an_object_found_as_two_classes_that_share_a_name_is_one(tmp_path):
    rows = rows_with([*BOX, 0.7, 0.0], 20)
    rows[1] = [*BOX, 0.6, 2.0]
    rows[2] = [*BOX, 0.5, 1.0]
    read = found(
        tmp_path,
        {'output0': rows[None]},
        classes=('vehicle', 'person', 'vehicle'),
        stated='detections px',
    )
    expected = ('detections px', approx([BOX, BOX]), approx([[0.7, 0.5]])[0], ['vehicle', 'person'])
    assert read == expected


@pytest.mark.parametrize(
    ('columns', 'name'),
    [
        ([*BOX, 0.7, 2.0], 'detections px'),
        ([2.0, 0.7, *BOX], 'detections label-first px'),
        ([0.0, *BOX, 2.0, 0.7], 'detections image-first px'),
        ([*CENTRE, 0.7, 2.0], 'detections centres px'),
    ],
)
def test_rows_of_objects(tmp_path, columns, name):
    read = found(tmp_path, {'output0': rows_with(columns, 20)[None]}, stated=name)
    assert read == (name, approx([BOX]), [pytest.approx(0.7)], ['bike'])


def test_detr_with_the_size_of_the_image_as_an_input(tmp_path):
    read = found(
        tmp_path,
        {
            'labels': np.int64([[1, 0]]),
            'boxes': np.float32([[BOX, BOX]]),
            'scores': np.float32([[0.6, 0.001]]),
        },
        further={'orig_target_sizes': ((1, 2), 'i64')},
    )
    assert read == ('boxes corners px', approx([BOX]), [pytest.approx(0.6)], ['person'])


@pytest.mark.parametrize('kind', ['i64', 'f32'])
def test_detr_with_a_mask_of_pixels(tmp_path, kind):
    read = found(
        tmp_path,
        {'labels': np.int64([[1]]), 'boxes': np.float32([[BOX]]), 'scores': np.float32([[0.6]])},
        further={'pixel_mask': ((1, *SIZE), kind)},
    )
    assert read == ('boxes corners px', approx([BOX]), [pytest.approx(0.6)], ['person'])


@pytest.mark.parametrize(
    'names',
    [
        ('num_dets', 'det_boxes', 'det_scores', 'det_classes'),
        ('num_detections', 'boxes', 'scores', 'classes'),
        ('num_predictions', 'pred_boxes', 'pred_scores', 'pred_classes'),
    ],
)
def test_a_count_tells_how_many_rows_are_filled(tmp_path, names):
    values = (
        np.int64([[1]]),
        np.float32([[BOX, [0, 0, 9, 9]]]),
        np.float32([[0.6, 0.5]]),  # the second is what an earlier image left there
        np.int64([[1, 2]]),
    )
    expected = ('boxes corners px', approx([BOX]), [pytest.approx(0.6)], ['person'])
    assert found(tmp_path, dict(zip(names, values))) == expected


@pytest.mark.parametrize('before_suppression', [False, True])
def test_boxes_of_tensorflow_are_fractions_with_rows_first(tmp_path, before_suppression):
    left, top, right, bottom = FRACTION
    outputs = {
        'detection_boxes': np.float32([[[top, left, bottom, right], [0, 0, 0, 0]]]),
        'detection_classes': np.float32([[2.0, 1.0]]),
        'detection_scores': np.float32([[0.7, 0.0]]),
        'num_detections': np.float32([1.0]),
    }
    if before_suppression:
        outputs['raw_detection_boxes'] = np.zeros((1, 20, 4), np.float32)
        outputs['raw_detection_scores'] = np.zeros((1, 20, 4), np.float32)
    expected = ('boxes rows-first fraction', approx([BOX]), [pytest.approx(0.7)], ['bike'])
    assert found(tmp_path, outputs, kind='u8', by_planes=False) == expected


def test_detr_before_its_selection(tmp_path):
    centres = np.float32([40 / 96, 32 / 64, 32 / 96, 32 / 64])
    logits = np.full((1, 20, 3), -9.0, np.float32)
    logits[0, 4] = [-9.0, 2.0, -9.0]
    boxes = np.tile(np.float32([0.9, 0.9, 0.05, 0.05]), (1, 20, 1))
    boxes[0, 4] = centres
    name, found_boxes, scores, labels = found(
        tmp_path, {'pred_logits': logits, 'pred_boxes': boxes}
    )
    assert name == 'class_scores centres fraction sigmoid' and labels == ['person']
    assert found_boxes == approx([BOX])
    assert scores == [pytest.approx(1 / (1 + math.exp(-2)), abs=1e-3)]


def test_detr_with_a_class_for_nothing(tmp_path):
    logits = np.zeros((1, 20, 4), np.float32)
    logits[..., 3] = 9.0
    logits[0, 4] = [0.0, 0.0, 3.0, 0.0]
    boxes = np.tile(np.float32([40 / 96, 32 / 64, 32 / 96, 32 / 64]), (1, 20, 1))
    name, found_boxes, scores, labels = found(
        tmp_path,
        {'logits': logits, 'boxes': boxes},
        stated='class_scores centres fraction softmax background-last',
    )
    assert labels == ['bike'] and found_boxes == approx([BOX])
    assert scores == [pytest.approx(math.exp(3) / (math.exp(3) + 3), abs=1e-3)]


@pytest.mark.parametrize('joined', [False, True])
def test_distributions_of_nanodet(tmp_path, joined):
    cells = {8: 96, 16: 24, 32: 6}
    scores = {stride: np.zeros((count, 3), np.float32) for stride, count in cells.items()}
    distances = {stride: np.zeros((count, 32), np.float32) for stride, count in cells.items()}
    # Row 1 and column 2 of stride 16, whose middle is (40, 24) px: one cell to the left, up and right, two down.
    scores[16][8] = [0.0, 0.0, 0.9]
    for side, bins in enumerate((1, 1, 1, 2)):
        distances[16][8, side * 8 + bins] = 50.0
    if joined:
        every = np.concatenate([np.hstack((scores[stride], distances[stride])) for stride in cells])
        outputs = {'output': every[None]}
    else:
        outputs = {f'cls_pred_stride_{stride}': scores[stride][None] for stride in cells}
        outputs |= {f'dis_pred_stride_{stride}': distances[stride][None] for stride in cells}
    read = found(tmp_path, outputs)
    assert read == (
        'distribution middle probability',
        approx([[24.0, 8.0, 56.0, 56.0]]),
        [pytest.approx(0.9)],
        ['bike'],
    )


def test_detection_output_of_ssd_ends_at_a_negative_image(tmp_path):
    rows = np.zeros((1, 1, 5, 7), np.float32)
    rows[0, 0, 0] = [0, 1, 0.8, *FRACTION]
    rows[0, 0, 1] = [-1, 0, 0, 0, 0, 0, 0]
    rows[0, 0, 2] = [0, 1, 0.7, *FRACTION]
    read = found(tmp_path, {'detection_out': rows}, classes=(None, 'car', 'person'))
    assert read == ('ssd', approx([BOX]), [pytest.approx(0.8)], ['car'])


def test_boxes_with_a_score_and_labels(tmp_path):
    read = found(
        tmp_path,
        {'boxes': np.float32([[*BOX, 0.7], [0, 0, 1, 1, 0.0]]), 'labels': np.int64([2, 0])},
    )
    assert read == ('boxes corners px', approx([BOX]), [pytest.approx(0.7)], ['bike'])


def test_paddle_detection_tells_the_scale_of_the_image(tmp_path):
    read = found(
        tmp_path,
        {'result': rows_with([1.0, 0.7, *BOX], 20), 'count': np.int64([20])},
        further={'scale_factor': ((1, 2), 'f32'), 'im_shape': ((1, 2), 'f32')},
        stated='detections label-first',
    )
    assert read == ('detections label-first px', approx([BOX]), [pytest.approx(0.7)], ['person'])


def test_fastestdet_has_one_map(tmp_path):
    values = np.zeros((1, 8, 8, 12), np.float32)
    # Row 4 and column 5 of 8 x 12 cells: the centre is at 5 / 12 and 4 / 8, the sizes are sigmoids.
    third = math.log((32 / 96) / (1 - 32 / 96))
    values[0, :, 4, 5] = [1.0, 0.0, 0.0, third, 0.0, 0.0, 1.0, 0.0]
    name, boxes, scores, labels = found(tmp_path, {'out': values})
    assert (name, labels) == ('cells', ['person'])
    assert boxes == approx([BOX])
    assert scores == [pytest.approx(1.0)]


def test_pixels_of_8_bit_and_channels_at_the_end(tmp_path):
    rows = rows_with([*BOX, 0.7, 2.0], 20)
    read = found(tmp_path, {'output0': rows[None]}, kind='u8', by_planes=False)
    assert read[0] == 'detections px' and read[1] == approx([BOX])


def test_nan_is_an_error_and_no_empty_road(tmp_path):
    rows = rows_with([*CENTRE, 0.1, math.nan, 0.0], 30)
    with pytest.raises(ModelError, match='net gave NaN or infinity, expected finite outputs'):
        found(tmp_path, {'output0': rows.T[None]})
    for wrong in (math.inf, -math.inf):
        rows[0, 5] = wrong
        with pytest.raises(ModelError, match='NaN or infinity'):
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
