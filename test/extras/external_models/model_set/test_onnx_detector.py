import numpy as np
import pytest
import torch
from exported_files import exported
from made_up_models import CLASSES, SIZE, BoxesScoresLabels, SmallYolo, export_onnx, small_yolo
from plain_images import grey, noise

from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.exported.pixels import InputForm
from deadline_perception.extras.external_models.exported.suppression import suppress
from deadline_perception.extras.external_models.model_set.onnx_detector import OnnxDetector
from deadline_perception.extras.external_models.model_set.onnx_runtime_detector import (
    OnnxRuntimeDetector,
)

IMAGE = noise(*SIZE)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp('onnx')


@pytest.mark.parametrize('form', ['yolov8', 'yolov5'])
def test_what_openvino_finds_is_what_the_module_finds(folder, form):
    """Bad pixels, colours or boxes would show: the network is a function of all of them."""
    torch.manual_seed(1)
    module = SmallYolo(form=form).eval()
    detector = OnnxDetector(export_onnx(module, folder / f'{form}.onnx'), CLASSES)
    assert detector.head.name == f'{form} px' and detector.input_size == SIZE
    pixels = torch.from_numpy(IMAGE[..., ::-1].copy()).permute(2, 0, 1)[None].float() / 255.0
    with torch.no_grad():
        expected = suppress(detector.head.decode([module(pixels).numpy()]))
    boxes, scores, labels = expected.boxes, expected.scores, expected.labels
    found = detector.detect(IMAGE)
    assert len(found) == len(boxes) > 5 and len(set(found.labels.tolist())) > 1
    assert found.scores == pytest.approx(scores, abs=0.05)  # some processors compute in bfloat16
    expected = np.clip(boxes, 0, (SIZE[1], SIZE[0]) * 2)
    near = [np.abs(expected - box).max(1).min() for box in found.boxes_xyxy_px]
    assert max(near) < 1.0
    assert sorted(found.labels.tolist()) == sorted(labels.tolist())


def test_an_image_is_letterboxed_and_boxes_come_back_to_its_pixels(folder):
    yolo = small_yolo(folder)
    detector = OnnxDetector(yolo, CLASSES)
    tall = grey(128, 64)  # becomes 64 x 32 px in the middle of 64 x 96
    pixels = detector.prepare(tall)
    assert pixels.shape == (1, *SIZE, 3)
    for third, shade in enumerate((114, 0, 114)):
        assert (pixels[0, :, 32 * third : 32 * third + 32] == shade).all()
    values = np.zeros((1, 7, 1), np.float32)
    values[0, :, 0] = [48.0, 32.0, 8.0, 8.0, 0.9, 0.0, 0.0]  # in the middle of the input
    boxes, _, _ = detector.decode([values], tall.shape[:2])
    assert boxes.tolist() == [[24.0, 56.0, 40.0, 72.0]]
    assert (OnnxDetector(yolo, CLASSES, form=InputForm(resize='stretch')).prepare(tall) == 0).all()
    corner = OnnxDetector(yolo, CLASSES, form=InputForm(resize='letterbox-corner'))
    pixels = corner.prepare(tall)
    assert (pixels[0, :, :32] == 0).all() and (pixels[0, :, 32:] == 114).all()
    assert corner.decode([values], tall.shape[:2])[0].tolist() == [[88.0, 56.0, 104.0, 72.0]]


def test_separate_outputs_and_an_open_size_are_taken(folder):
    torch.manual_seed(0)
    outputs = ('boxes', 'scores', 'labels')
    three = export_onnx(BoxesScoresLabels(), folder / 'three.onnx', outputs=outputs)
    assert len(OnnxDetector(three, CLASSES).detect(IMAGE)) == 6
    file = small_yolo(folder, name='open', dynamic={'images': {0: 'n', 2: 'h', 3: 'w'}})
    with pytest.raises(ModelError, match=r'open.onnx is \[\?, \?\], of open size: say'):
        OnnxDetector(file, CLASSES)
    detector = OnnxDetector(file, CLASSES, form=InputForm((96, 128)))
    assert detector.input_size == (96, 128) and len(detector.detect(IMAGE)) > 0


class ManyReshapes(SmallYolo):
    """With the size of the batch in its reshapes, as exports with a fixed one have it."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.sizes = sizes

    def forward(self, images):
        return super().forward(images).reshape(self.sizes)


@pytest.mark.parametrize('sizes', [(4, 7, -1), (2, 2, 7, 24), (-1, 7, 4 * 24)])
def test_of_a_batch_of_several_images_one_is_computed(folder, sizes):
    torch.manual_seed(1)
    module = ManyReshapes(sizes)
    file = export_onnx(module, folder / 'batch.onnx', batch=4)
    if sizes[0] != 4:
        with pytest.raises(ModelError, match=r'batch.onnx takes 4 images at once, expected one'):
            OnnxDetector(file, CLASSES)
        return
    module.sizes = (1, 7, -1)
    single = OnnxDetector(export_onnx(module, folder / 'single.onnx'), CLASSES).detect(IMAGE)
    found = OnnxDetector(file, CLASSES).detect(IMAGE)
    assert len(found) > 5
    np.testing.assert_array_equal(found.boxes_xyxy_px, single.boxes_xyxy_px)
    np.testing.assert_array_equal(found.scores, single.scores)
    pytest.importorskip('onnxruntime')
    with pytest.raises(ModelError, match='4 images at once, which ONNX Runtime cannot change'):
        OnnxRuntimeDetector(file, CLASSES)


class Masked(SmallYolo):
    """Scores count where the mask holds, as attention in DETR's family does."""

    def forward(self, images, pixel_mask):
        return super().forward(images) * pixel_mask.float().mean()


@pytest.mark.parametrize('engine', ['openvino', 'onnxruntime'])
@pytest.mark.parametrize('is_open', [False, True])
def test_a_mask_of_pixels_holds_everywhere(folder, engine, is_open):
    pytest.importorskip(engine)
    torch.manual_seed(1)
    mask = {'pixel_mask': torch.ones(1, *SIZE, dtype=torch.int64)}
    axes = {'pixel_mask': {1: 'height', 2: 'width'}} if is_open else None
    file = export_onnx(Masked(), folder / 'masked.onnx', further=mask, dynamic=axes)
    kind = OnnxDetector if engine == 'openvino' else OnnxRuntimeDetector
    found = kind(file, CLASSES).detect(IMAGE)
    torch.manual_seed(1)
    plain = export_onnx(SmallYolo(), folder / 'plain.onnx')
    expected = kind(plain, CLASSES).detect(IMAGE)
    assert len(found) > 5
    np.testing.assert_allclose(found.boxes_xyxy_px, expected.boxes_xyxy_px, atol=1e-3)


@pytest.mark.parametrize(
    'values, said',
    [
        ({'size': (0, 5)}, r'input size is \(0, 5\)'),
        ({'resize': 'crop'}, "resize is 'crop'"),
        ({'channels': 'grey'}, "channels 'grey'"),
        ({'deviation': (1.0, 0.0, 1.0)}, 'deviations above 0'),
    ],
)
def test_forms_of_input_that_are_none_are_refused(values, said):
    with pytest.raises(ModelError, match=said):
        InputForm(**values)


@pytest.mark.parametrize('classes', [1, 4])
def test_an_idle_column_of_a_sigmoid_is_no_background(tmp_path, classes):
    """RF-DETR on classes of one's own: a softmax would make each of the 300 an object."""
    chance = np.random.default_rng(1)
    boxes = chance.uniform(0.2, 0.8, (1, 300, 4)) * [1, 1, 0.3, 0.3]
    logits = chance.normal(-6.0, 0.5, (1, 300, classes + 1))
    boxes[0, 7], logits[0, 7, 0] = (0.5, 0.5, 0.2, 0.3), 3.0
    file = exported(tmp_path / 'net.xml', {'dets': boxes, 'labels': logits})
    network = OnnxDetector(file, [f'class{number}' for number in range(classes)])
    found = network.detect(grey(64, 96))
    assert (found.labels[found.scores > 0.05]).tolist() == [0]
    assert found.boxes_xyxy_px[0].tolist() == pytest.approx([38.4, 22.4, 57.6, 41.6], abs=0.1)


@pytest.mark.parametrize('column', [0, -1])
@pytest.mark.parametrize('form', ['softmax', 'probability'])
def test_a_column_that_wins_where_nothing_is_is_a_background(tmp_path, column, form):
    logits = np.random.default_rng(1).normal(0.0, 0.5, (1, 100, 5))
    boxes = np.tile(np.float32([0.5, 0.5, 0.2, 0.3]), (1, 100, 1))
    logits[..., column] = 8.0
    logits[0, 7, 2], logits[0, 7, column] = 9.0, -9.0
    scores = logits
    if form == 'probability':
        scores = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    file = exported(tmp_path / 'net.xml', {'pred_boxes': boxes, 'logits': scores})
    found = OnnxDetector(file, ['a', 'b', 'c', 'd']).detect(grey(64, 96))
    assert found.labels[found.scores > 0.05].tolist() == [1 if column == 0 else 2]
