from dataclasses import replace

import numpy as np
import torch
from made_up_labels import target_objects

from deadline_perception.extras.training.dense_targets import assign_anchors
from deadline_perception.extras.training.first_stage import DenseStage, first_stage_of
from deadline_perception.extras.training.losses import path_losses
from deadline_perception.extras.training.strategies import TrainedPath
from deadline_perception.networks.multi_path.dense.configuration import STREET
from deadline_perception.networks.multi_path.dense.network import DenseDetector

SIZE = (128, 128)


def test_an_object_takes_the_anchors_that_fit_it_and_lie_in_it():
    found = assign_anchors(SIZE, target_objects([[32, 32, 96, 96]], [1]))
    assert len(found.positives) > 0 and set(found.labels) == {1}
    centres = (found.anchors[:, :2] + found.anchors[:, 2:]) / 2
    assert ((centres > 32) & (centres < 96)).all()
    square = found.anchors[(found.anchors == np.float32([32, 32, 96, 96])).all(1)]
    assert len(square) == 1  # the anchor that is the object itself
    middle = (centres == 64).all(1)
    np.testing.assert_allclose(found.centred[middle], 1.0)
    beside = (centres == np.float32([56, 64])).all(1)  # 24 px to one side, 40 to the other
    if beside.any():
        np.testing.assert_allclose(found.centred[beside], (24 / 40) ** 0.5, rtol=1e-5)
    found = assign_anchors(SIZE, target_objects(crowd=[[0, 0, 128, 128]]))
    assert len(found.positives) == 0 and found.boxes.shape == (0, 4)
    assert 0 < len(found.crowd) < found.count


def test_a_class_that_a_source_does_not_name_takes_no_part():
    """Its logits get no gradient, neither as an object nor as background."""
    torch.manual_seed(0)
    shape = replace(STREET, input_size=SIZE, scales=(1.0, 0.5), proposals=(5, 20))
    network = DenseDetector(shape, ('vehicle', 'person')).train()
    stage, dense = network.rpn, first_stage_of(network)
    assert isinstance(dense, DenseStage)
    images = torch.randn(1, 3, *SIZE, generator=torch.Generator().manual_seed(0))
    for named, is_moved in (((True, True), True), ((True, False), False)):
        network.zero_grad()
        known = target_objects([[32, 32, 96, 96]], [0], named=named)
        trained = TrainedPath(network.path_space.largest.replace(head='0'), (0,))
        each = dense.targets(network, SIZE, known, np.random.default_rng(0))
        targets = dense.joined(network, SIZE, [each], torch.device('cpu'))
        batch = images, [known], targets, trained, [np.random.default_rng(1)]
        losses, _ = path_losses(network, *batch, batch=1, target=None)
        losses['dense_classes'].backward()
        gradient = stage.class_output.bias.grad.view(3, 2)
        assert (gradient[:, 0] != 0).all()
        assert bool((gradient[:, 1] != 0).any()) is is_moved
