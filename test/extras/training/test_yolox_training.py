import numpy as np
import pytest
import torch
from made_up_labels import target_objects

from deadline_perception.core.opencv import cv2
from deadline_perception.core.share_folder import share_folder
from deadline_perception.extras.external_models.public_yolox import build_yolox
from deadline_perception.extras.training.yolox_training import answers_of, assign, losses
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.networks.yolox.configuration import YoloxConfig
from deadline_perception.networks.yolox.outline import cells

SIZE = (96, 160)
SMALL = YoloxConfig('small', SIZE, (1.0, 0.41), (('car', 'bus'), ('person',)))
NAMES = ('vehicle', 'person')


def answers(network, seed=0):
    images = np.random.default_rng(seed).integers(0, 256, (1, 3, *SIZE), dtype=np.uint8)
    return answers_of(network, torch.from_numpy(images))


def test_answers_are_those_that_the_detector_gives():
    network = load_detector(share_folder() / 'models/street-open.safetensors')
    network.score_calibration = None
    photograph = cv2.imread(str(share_folder() / 'examples/street.jpg'))
    size = network.input_size[::-1]
    image = cv2.resize(photograph, size)
    path = network.path_space.largest
    found = network.detect(image, path)
    with torch.no_grad():
        given = answers_of(network, torch.from_numpy(image).permute(2, 0, 1)[None])
    scores = (-torch.expm1(given.absent[0]) * given.objectness[0].sigmoid()[:, None]).numpy()
    best = int(scores.max(1).argmax())
    strongest = int(found.scores.argmax())
    assert found.scores[strongest] == pytest.approx(scores.max(), abs=1e-3)
    expected = given.boxes[0, best].numpy().clip(0, 2 * size)
    np.testing.assert_allclose(found.boxes_xyxy_px[strongest], expected, atol=0.5)


def test_an_object_takes_cells_near_its_middle_and_each_cell_one_object():
    corners, strides = map(torch.from_numpy, cells(SIZE))
    middles = (corners + 0.5) * strides[:, None]
    boxes = torch.cat((middles - 8, middles + 8), 1)
    wanted = torch.tensor([[32.0, 32.0, 48.0, 48.0], [36.0, 32.0, 52.0, 48.0]])
    nothing = torch.zeros(len(boxes))
    absent = torch.full((len(boxes), 2), -1.0)
    found = assign(boxes, nothing, absent, wanted, torch.tensor([0, 1]), SIZE)
    assert len(found.cells) == len(found.cells.unique()) and set(found.objects.tolist()) == {0, 1}
    for cell, owner, overlap in zip(found.cells, found.objects, found.overlaps):
        centre = (wanted[owner, :2] + wanted[owner, 2:]) / 2
        assert (middles[cell] - centre).abs().max() < 2.5 * strides[cell]
        assert 0 <= overlap <= 1
    # Of all cells the best boxes are those around the objects' own middles.
    assert found.overlaps.max() > 0.5
    count = len(cells(SIZE)[0])
    far = torch.tensor([[1e4, 1e4, 1e4 + 5, 1e4 + 5]])
    boxes = torch.zeros(count, 4)
    nothing = torch.zeros(count)
    absent = -torch.ones(count, 2)
    found = assign(boxes, nothing, absent, far, torch.tensor([0]), SIZE)
    assert not len(found.cells)


def test_what_a_source_does_not_mark_is_learnt_from_the_weights_at_the_start():
    network = build_yolox(SMALL, NAMES, seed=1)
    teacher = answers(network)
    unnamed = target_objects(named=(True, False))
    for known in (unnamed, target_objects()):
        parts = losses(teacher, teacher, [known], SIZE)
        assert all(torch.isfinite(value) for value in parts.values())
    given = answers(network)
    given.objectness.retain_grad()
    losses(given, teacher, [unnamed], SIZE)['objectness'].backward()
    of_unmarked = given.objectness.grad[0]
    unmarked = -torch.expm1(teacher.absent[0, :, 1])
    wanted = (teacher.objectness[0].sigmoid() * unmarked).detach()
    torch.testing.assert_close(of_unmarked, (given.objectness[0].sigmoid() - wanted).detach())


def test_cells_of_a_crowd_are_neither_right_nor_wrong():
    network = build_yolox(SMALL, NAMES, seed=1)
    given = answers(network)
    given.objectness.retain_grad()
    known = target_objects(crowd=[0, 0, SIZE[1], SIZE[0]])
    losses(given, answers(network), [known], SIZE)['objectness'].backward()
    assert not given.objectness.grad.any()
