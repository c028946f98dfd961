import pytest

from deadline_perception.extras.external_models.exported.families import recognise
from deadline_perception.extras.external_models.exported.head import Output
from deadline_perception.extras.external_models.exported.model_error import ModelError

SIZE = (640, 640)


def names(*outputs, classes=80, stated='', size=SIZE) -> list[str]:
    """Of the readings of outputs of these shapes, those of whole numbers as lists."""
    given = [
        Output(f'output{number}', tuple(shape), isinstance(shape, list))
        for number, shape in enumerate(outputs)
    ]
    return [head.name for head in recognise(given, classes, size, stated)]


@pytest.mark.parametrize(
    'outputs, first',
    [
        ([(1, 84, 8400)], 'yolov8 px'),
        ([(1, 8400, 84)], 'yolov8 px'),
        ([(1, 84, None)], 'yolov8 px'),
        ([(1, 25200, 85)], 'yolov5 px'),
        ([(1, 8400, 85)], 'yolox'),
        ([(None, 300, 6)], 'detections px'),
        ([(1, 300, 84)], 'yolov8 px'),  # RT-DETR as Ultralytics exports it
        ([(1, 1, 100, 7)], 'ssd'),
        ([(1, 900, 80), (1, 900, 4)], 'class_scores centres fraction sigmoid'),
        ([(1, 8400, 4), (1, 8400, 80)], 'class_scores centres fraction sigmoid'),
        ([(1, 3, side, side, 85) for side in (80, 40, 20)], 'maps'),
        (
            [(1, count, side, side) for side in (80, 40, 20) for count in (64, 80)],
            'distribution middle probability',
        ),
        ([(1, 300, 4), [1, 300], (1, 300)], 'boxes corners px'),
        ([(1, 85, 22, 22)], 'cells'),
    ],
)
def test_heads_are_recognised_by_their_structure(outputs, first):
    size = (352, 352) if first == 'cells' else SIZE
    assert names(*outputs, size=size)[0] == first


def test_what_is_stated_narrows_the_readings():
    shape = (1, 300, 6)
    assert names(shape, classes=2) == [
        'yolov8 px',
        'detections px',
        'detections fraction',
        'detections label-first px',
        'detections label-first fraction',
        'detections centres px',
        'detections centres fraction',
    ]
    expected = ['detections label-first px', 'detections label-first fraction']
    assert names(shape, classes=2, stated='detections label-first') == expected
    for stated, said in (
        ('ssd', "stated as 'ssd': expected one of yolov8 px, detections"),
        ('squares', "stated as 'squares', expected one of distribution"),
    ):
        with pytest.raises(ModelError, match=said):
            names(shape, classes=2, stated=stated)


@pytest.mark.parametrize(
    'outputs, said',
    [
        ([(1, 84, 8400)], r'output0 \[1, 84, 8400\]: with 5 classes expected .* are of 80 classes'),
        ([(1, 1000)], r'output0 \[1, 1000\], as of a classifier: expected a detector'),
        ([(1, 21, 640, 640)], 'as of a segmenter, with a value for each pixel'),
        ([(1, 17, 3)], 'no known head of a detector. Known are distribution, class_scores,'),
        ([], 'outputs are none: no known head'),
        ([(1, 2, 3)] * 1000, 'it has 1000 outputs, expected at most 64'),
        ([(1, 2, 3)] * 20, r'output5 \[1, 2, 3\] and 14 more: no known head'),
    ],
)
def test_what_is_no_detector_is_refused_with_what_was_found(outputs, said):
    with pytest.raises(ModelError, match=said) as error:
        names(*outputs, classes=5)
    assert len(str(error.value)) < 600
