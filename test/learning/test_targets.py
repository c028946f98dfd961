import numpy as np

from deadline_perception.learning.targets import Truth, match_anchors, sample, sample_regions

ANCHORS = np.float32([[0, 0, 10, 10], [1, 0, 11, 10], [5, 0, 15, 10], [50, 50, 60, 60], [80, 80, 90, 90]])


def _truth(boxes=(), labels=(), crowd=()):
    return Truth(np.float32(boxes).reshape(-1, 4), np.int64(labels), np.float32(crowd).reshape(-1, 4))


def test_anchors_are_matched_by_overlap():
    labels, matched = match_anchors(ANCHORS, _truth([[0, 0, 10, 10], [48, 48, 58, 58]], [0, 1], [[75, 75, 95, 95]]))
    # 1.0 and 0.82 overlap: object; 0.33: neither; 0.47, but the second object's best: object; in a crowd: neither.
    assert labels.tolist() == [1, 1, -1, 1, -1]
    assert matched[:4].tolist() == [0, 0, 0, 1]


def test_image_without_objects_is_all_background():
    labels, matched = match_anchors(ANCHORS, _truth())
    assert labels.tolist() == [0] * 5 and matched.tolist() == [0] * 5


def test_sample_keeps_the_share_and_only_what_is_there():
    generator = np.random.default_rng(0)
    labels = np.array([1] * 20 + [0] * 50 + [-1] * 30)
    positive, negative = sample(labels, 16, 0.25, generator)
    assert len(positive) == 4 and len(negative) == 12
    assert set(positive.tolist()) <= set(range(20)) and set(negative.tolist()) <= set(range(20, 70))
    positive, negative = sample(np.array([1, -1]), 16, 0.5, generator)
    assert positive.tolist() == [0] and negative.tolist() == []


def test_known_objects_are_among_the_regions():
    generator = np.random.default_rng(0)
    truth = _truth([[0, 0, 10, 10]], [1])
    regions, labels, targets, ranks = sample_regions(np.float32([[60, 60, 70, 70]]), truth, 8, 0.25, generator)
    assert labels.tolist() == [2, 0] and ranks.tolist() == [-1, 0]
    assert regions[0].tolist() == targets[0].tolist() == [0, 0, 10, 10]
    nothing = sample_regions(np.zeros((0, 4), np.float32), _truth(), 8, 0.25, generator)
    assert [len(part) for part in nothing] == [0, 0, 0, 0]
