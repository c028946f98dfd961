import numpy as np
import torch

from deadline_perception.detector.network import MultiPathDetector
from deadline_perception.learning.anchor_sample import (ANCHORS_PER_IMAGE, choose_anchors, join_anchors,
                                                        lay_out_anchors)
from deadline_perception.learning.targets import Truth

NOTHING = Truth(np.zeros((0, 4), np.float32), np.zeros(0, np.int64), np.zeros((0, 4), np.float32))


def test_anchors_are_those_of_the_network(tiny_network: MultiPathDetector):
    for size in ((64, 96), (96, 96)):
        tiny_network.set_training_size(size)
        anchors = torch.cat([tiny_network.rpn.anchors(level) for level in range(4)])
        assert torch.equal(torch.from_numpy(lay_out_anchors(tiny_network.config, size)), anchors)


def test_anchors_on_objects_come_first_and_want_their_boxes():
    anchors = np.float32([[50, 50, 60, 60], [0, 0, 10, 10], [30, 30, 40, 40]])
    truth = Truth(np.float32([[1, 0, 11, 10]]), np.array([3]), NOTHING.crowd)
    chosen = choose_anchors(anchors, truth, np.random.default_rng(0))
    assert chosen.indices[0] == 1 and sorted(chosen.indices[1:]) == [0, 2]
    np.testing.assert_allclose(chosen.deltas, [[0.1, 0, 0, 0]], atol=1e-6)


def test_images_are_joined_by_the_number_of_their_anchors():
    anchors = np.float32([[0, 0, 10, 10], [50, 50, 60, 60]])
    truth = Truth(np.float32([[50, 50, 60, 60]]), np.array([0]), NOTHING.crowd)
    chosen = [choose_anchors(anchors, one, np.random.default_rng(0)) for one in (NOTHING, truth, truth)]
    joined = join_anchors(chosen, 2, torch.device('cpu'))
    assert joined.indices.tolist()[2:] == [3, 2, 5, 4] and sorted(joined.indices[:2].tolist()) == [0, 1]
    assert joined.positives.tolist() == [2, 4] and joined.labels.tolist() == [0, 0, 1, 0, 1, 0]
    assert joined.deltas.shape == (2, 4) and float(joined.deltas.abs().max()) == 0.0


def test_many_anchors_are_drawn_without_repeats(tiny_network):
    anchors = lay_out_anchors(tiny_network.config, (64, 96))
    chosen = choose_anchors(anchors, NOTHING, np.random.default_rng(0))
    assert len(set(chosen.indices.tolist())) == ANCHORS_PER_IMAGE < len(anchors) and chosen.deltas.shape == (0, 4)
