"""One small file per family of heads, read as any file, against boxes worked out by hand."""
from __future__ import annotations

from functools import partial

import numpy as np
import pytest

pytest.importorskip('openvino')

from made_up_heads import SIZE, known_outputs  # noqa: E402

from deadline_perception.model_set.onnx_detector import OnnxDetector  # noqa: E402
from deadline_perception.networks.external.families import recognise  # noqa: E402
from deadline_perception.networks.external.head import Output  # noqa: E402
from deadline_perception.networks.external.model_error import ModelError  # noqa: E402

IMAGE = np.zeros((*SIZE, 3), np.uint8)
CLASSES = ('car', 'person', 'bike')
array = partial(np.array, dtype=np.float32)
# The object of most tests: a person at 0.8, left 24, top 16, right 48, bottom 48 px of 96 x 64.
BOX, FRACTIONS, CENTRE = [24, 16, 48, 48], [0.25, 0.25, 0.5, 0.75], [36, 32, 24, 32]
CELLS_8 = 8 * 12  # cells of stride 8, of 16 (24) and 32 (6)
ALL_CELLS = CELLS_8 + 24 + 6


def logit(probability: float) -> float:
    return float(np.log(probability / (1 - probability)))


def rows(count: int, values: list[float], at: int = 0) -> np.ndarray:
    """Rows `[1, count, V]` of 0 but for one."""
    given = np.zeros((1, count, len(values)), np.float32)
    given[0, at] = values
    return given


def spread(bins: list[int], most: int = 8) -> list[float]:
    """Logits of distributions, each certain of one distance."""
    values = np.full((4, most), -50.0)
    values[np.arange(4), bins] = 50.0
    return values.ravel().tolist()


def read(tmp_path, outputs, stated: str = '', classes=CLASSES, **options):
    return OnnxDetector(known_outputs(tmp_path / 'one.xml', outputs, **options), classes, stated=stated)


def check(detector: OnnxDetector, head: str, boxes=(BOX,), scores=(0.8,), labels=(1,)) -> None:
    found = detector.detect(IMAGE)
    assert detector.head.name == head
    assert found.boxes_xyxy_px == pytest.approx(np.float32(boxes), abs=0.01)
    assert found.scores == pytest.approx(np.float32(scores), abs=1e-4) and found.labels.tolist() == list(labels)


def test_detr_with_the_size_beside_the_image(tmp_path):
    outputs = {'labels': np.array([[1, 0]], np.int64), 'boxes': array([[BOX, [0, 0, 9, 9]]]),
               'scores': array([[0.8, 0.001]])}
    check(read(tmp_path, outputs, beside={'orig_target_sizes': ((1, 2), np.int64)}), 'boxes corners px')


def test_the_size_beside_the_image_is_told_width_first_where_its_name_says_so(tmp_path):
    import openvino
    from openvino import opset13 as ops

    # The box ends at what the input says; the image ends at 64 px below.
    for name, expected in (('orig_target_sizes', [96.0, 64.0]), ('im_shape', [64.0, 64.0]), ('scale_factor', [1, 1])):
        image, size = ops.parameter([1, 3, *SIZE], np.float32), ops.parameter([1, 2], np.float32)
        for one, called in ((image, 'images'), (size, name)):
            one.output(0).set_names({called})
        nothing = ops.multiply(ops.reduce_sum(image, np.arange(4)), ops.constant(np.float32(0)))
        box = ops.concat([ops.constant(array([[1, 1, 0.8, 0, 0]])[:, 3:]), ops.add(size, nothing)], 1)
        row = ops.unsqueeze(ops.concat([ops.constant(array([[1, 0.8]])), box], 1), ops.constant(0))
        file = tmp_path / f'{name}.xml'
        openvino.save_model(openvino.Model([ops.result(row)], [image, size]), file, compress_to_fp16=False)
        check(OnnxDetector(file, CLASSES, stated='detections label-first'), 'detections label-first px',
              [[0, 0, *expected]])


def test_raw_detr_gives_centres_as_fractions_and_logits(tmp_path):
    outputs = {'logits': rows(5, [-9, logit(0.8), -9, -9]) - 9 * (rows(5, [1] * 4) == 0),
               'pred_boxes': rows(5, [0.375, 0.5, 0.25, 0.5])}
    check(read(tmp_path, outputs, stated='class_scores centres fraction sigmoid', classes=(*CLASSES, 'other')),
          'class_scores centres fraction sigmoid')


def test_raw_detr_with_softmax_and_no_object_last(tmp_path):
    logits = np.full((1, 5, 4), -50.0, np.float32)
    logits[0, :, 3] = 0.0
    logits[0, 2] = [-50.0, np.log(0.8), -50.0, np.log(0.2)]
    outputs = {'logits': logits, 'pred_boxes': rows(5, [0.375, 0.5, 0.25, 0.5], 2)}
    check(read(tmp_path, outputs, stated='class_scores centres fraction softmax'),
          'class_scores centres fraction softmax background-last')


def test_yolox_gives_offsets_and_logarithms_in_strides(tmp_path):
    # Stride 16, second row, third column: (2.25 * 16, 2 * 16) px; sizes 1.5 and 2 strides.
    given = rows(ALL_CELLS, [0.25, 1.0, np.log(1.5), np.log(2), 0.8, 0, 1, 0], CELLS_8 + 6 + 2)
    check(read(tmp_path, {'output': given}), 'yolox')


@pytest.mark.parametrize('joined', [True, False])
def test_nanodet_gives_distributions_of_distances(tmp_path, joined):
    # Stride 16, row 1, column 2, whose middle is at (40, 24) px: 1, 0, 2 and 1 strides to the sides.
    scores = rows(ALL_CELLS, [0, 0.8, 0], CELLS_8 + 6 + 2)
    distances = rows(ALL_CELLS, spread([1, 0, 2, 1]), CELLS_8 + 6 + 2)
    parts = np.cumsum([0, CELLS_8, 24, 6])
    if joined:
        outputs = {'output': np.concatenate((scores, distances), 2)}
    else:
        outputs = {f'{name}_{at}': values[:, low:high] for name, values in (('cls', scores), ('dis', distances))
                   for at, (low, high) in enumerate(zip(parts, parts[1:]))}
    check(read(tmp_path, outputs, stated='distribution middle probability'), 'distribution middle probability',
          [[24, 24, 72, 40]])


def test_yolov8_gives_centres_and_scores_by_columns(tmp_path):
    given = rows(ALL_CELLS, [*CENTRE, 0, 0.8, 0]).transpose(0, 2, 1)
    given[0, :, 7] = [37, 32, 24, 32, 0, 0.7, 0]  # the same object again
    given[0, :, 9] = [36, 32, 24, 32, 0.5, 0, 0]  # another class on the same place
    check(read(tmp_path, {'output0': given.copy()}), 'yolov8 px', [BOX, BOX], [0.8, 0.5], [1, 0])


def test_yolov5_multiplies_by_the_score_of_being_an_object(tmp_path):
    check(read(tmp_path, {'output': rows(3 * ALL_CELLS, [*CENTRE, 0.9, 0.1, 0.8 / 0.9, 0])}), 'yolov5 px')


def test_yolov5_before_its_decoding(tmp_path):
    maps = {f'map{at}': np.full((1, 3, 64 // stride, 96 // stride, 8), -50, np.float32)
            for at, stride in enumerate((8, 16, 32))}
    # Stride 16, anchor 62 x 45, row 1, column 2: centre (2.5, 1.5) cells, half-way sigmoids give the anchor's size.
    maps['map1'][0, 1, 1, 2] = [0, 0, 0, 0, logit(0.8), -50, 50, -50]
    check(read(tmp_path, maps), 'maps', [[40 - 31, 24 - 22.5, 40 + 31, 24 + 22.5]])


def test_rows_of_objects(tmp_path):
    check(read(tmp_path, {'output0': rows(300, [*BOX, 0.8, 1])}), 'detections px')
    check(read(tmp_path, {'out': rows(300, [*FRACTIONS, 0.8, 1])}, 'detections fraction'), 'detections fraction')
    check(read(tmp_path, {'output': rows(9, [0, *BOX, 1, 0.8])[0]}), 'detections image-first px')
    given = rows(300, [1, 0.8, *BOX])
    beside = {'scale_factor': ((1, 2), np.float32), 'im_shape': ((1, 2), np.float32)}
    check(read(tmp_path, {'out': given[0]}, 'detections label-first', beside=beside, image='image'),
          'detections label-first px')


def test_ssd_ends_at_a_negative_image(tmp_path):
    given = array([[[[0, 1, 0.8, *FRACTIONS], [-1, 0, 0.0, 0, 0, 0, 0], [0, 2, 0.9, 0, 0, 1, 1]]]])
    check(read(tmp_path, {'detection_out': given}), 'ssd')


def test_boxes_with_a_score_and_labels_beside(tmp_path):
    check(read(tmp_path, {'boxes': array([[*BOX, 0.8]]), 'labels': np.array([1], np.int64)}), 'boxes corners px')


def test_boxes_with_rows_first(tmp_path):
    outputs = {'boxes': array([[0.25, 0.25, 0.75, 0.5]]), 'scores': array([0.8]), 'labels': array([1])}
    check(read(tmp_path, outputs, 'boxes rows-first fraction'), 'boxes rows-first fraction')


def test_fastestdet_joins_its_two_scores(tmp_path):
    given = np.zeros((1, 8, 8, 12), np.float32)
    # Cell (4, 2) of stride 8; offsets are tanh, sizes the sigmoid's share of the image.
    given[0, :, 2, 4] = [0.8, np.arctanh(0.5), 0, logit(0.25), logit(0.5), 0, 0.8, 0]
    check(read(tmp_path, {'out': given}), 'cells', [[24, 0, 48, 32]])


def test_inputs_of_other_types_and_orders(tmp_path):
    for kind, by_planes in ((np.float16, True), (np.uint8, True), (np.float32, False), (np.uint8, False)):
        given = {'output0': rows(300, [*BOX, 0.8, 1])}
        check(read(tmp_path, given, kind=kind, by_planes=by_planes), 'detections px')


def test_names_are_not_needed_and_may_repeat(tmp_path):
    unnamed = {'?0': array([[BOX]]), '?1': array([[0.8]]), '?2': np.array([[1]], np.int64)}
    check(read(tmp_path, unnamed), 'boxes corners px')
    alike = [Output('out', (1, count, values)) for count in (CELLS_8, 24, 6) for values in (3, 32)]
    assert recognise(alike, 3, SIZE)[0].family == 'distribution'


@pytest.mark.parametrize(('outputs', 'said'), [
    ({'prob': np.zeros((1, 1000), np.float32)}, 'as of a classifier: expected a detector'),
    ({'mask': np.zeros((1, 19, *SIZE), np.float32)}, 'as of a segmenter'),
    ({'output0': np.zeros((1, 84, 126), np.float32)}, 'with 3 classes expected another shape.* 80 classes'),
    ({f'out{at}': np.zeros((1, 5), np.float32) for at in range(65)}, 'has 65 outputs, expected at most 64')])
def test_what_is_no_detector_is_refused_with_what_it_is(tmp_path, outputs, said):
    with pytest.raises(ModelError, match=said) as caught:
        read(tmp_path, outputs)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize('value', [np.nan, np.inf])
def test_nan_is_an_error_of_the_frame_and_no_empty_road(tmp_path, value):
    detector = read(tmp_path, {'output0': rows(300, [*BOX, value, 1])})
    with pytest.raises(ModelError, match='gave NaN or infinity, expected finite outputs'):
        detector.detect(IMAGE)


def test_a_stated_reading_is_one_that_is_known_and_fits(tmp_path):
    with pytest.raises(ModelError, match="stated as 'heatmap', expected one of distribution"):
        read(tmp_path, {'output0': rows(300, [*BOX, 0.8, 1])}, 'heatmap')
    with pytest.raises(ModelError, match="stated as 'ssd': expected one of"):
        read(tmp_path, {'output0': rows(300, [*BOX, 0.8, 1])}, 'ssd')
