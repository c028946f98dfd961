from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from deadline_perception.decision.pass_quality import LookQuality, PassQuality, joined_quality
from deadline_perception.decision.scene import SIZE_NAMES, typical_sizes
from deadline_perception.networks.passes import MergeRule

RULE = MergeRule()
OVERALL = {'c': 0.3, 'C': 0.4, 'f': 0.5, 'F': 0.6}  # first looks, and closer ones
PATHS = [('c', None), (None, 'f'), ('C', 'f'), ('C', 'F'), ('c', 'f')]
VEHICLE = np.array([0.1, 0.2, 0.4, 0.6, 0.8])  # of the closer look, by size
LIGHT = np.array([0.3, 0.5, 0.6, 0.5, 0.2])


class Overall:
    def table(self, paths):
        return np.array([OVERALL[path] for path in paths])


class BySize:
    """Of a better path, each size is better by as much as all are."""

    def table(self, paths):
        of_f = np.concatenate([VEHICLE, LIGHT])
        return np.array([of_f + OVERALL[path] - OVERALL['f'] for path in paths])


def network(fusion: object = None) -> SimpleNamespace:
    """Both see vehicles; the first look knows no lights, the closer one lists its classes the other way round."""
    return SimpleNamespace(
        parts=lambda path: path,
        class_names=('vehicle', 'light'),
        coarse=SimpleNamespace(class_names=('vehicle',)),
        fine=SimpleNamespace(class_names=('light', 'vehicle')),
        fusion=fusion,
        rule=RULE,
    )


def tables(found: np.ndarray) -> np.ndarray:
    return found.reshape(len(PATHS), 2, len(SIZE_NAMES))


def test_a_look_alone_is_as_good_as_it_was_measured_for_its_own_classes():
    quality = PassQuality(network(), LookQuality(Overall()))
    coarse, fine = tables(quality.by_size(PATHS))[:2]
    assert np.array_equal(coarse, [[0.3] * 5, [0.0] * 5])
    assert np.array_equal(fine, [[0.5] * 5, [0.5] * 5])


def test_two_looks_are_as_good_as_their_boxes_joined():
    quality = PassQuality(network(), LookQuality(Overall()))
    for number, (coarse, fine) in enumerate(PATHS[2:], 2):
        vehicle, light = tables(quality.by_size(PATHS))[number]
        ones, zeros = np.ones(5), np.zeros(5)
        expected = joined_quality(OVERALL[coarse] * ones, OVERALL[fine] * ones, RULE)
        assert np.array_equal(vehicle, expected)
        assert np.array_equal(light, joined_quality(zeros, OVERALL[fine] * ones, RULE))


def test_fused_looks_keep_the_better_one_of_each_object():
    quality = PassQuality(network(fusion=object()), LookQuality(Overall()))
    assert np.array_equal(tables(quality.by_size(PATHS))[2], [[0.5] * 5, [0.5] * 5])


def test_what_was_measured_by_size_goes_to_the_class_of_its_name():
    fine, coarse = LookQuality(Overall(), BySize()), LookQuality(Overall())
    found = tables(PassQuality(network(), fine, coarse).by_size(PATHS))
    # Its table lists lights first.
    assert found[1] == pytest.approx(np.array([LIGHT, VEHICLE]))
    assert found[0] == pytest.approx(np.array([[0.3] * 5, [0.0] * 5]))
    better = joined_quality(np.full(5, 0.4), LIGHT + 0.1, RULE)
    assert found[3, 0] == pytest.approx(better)


def test_quality_is_the_mean_over_classes_and_sizes_in_an_unknown_scene():
    quality = PassQuality(network(), LookQuality(Overall()))
    by_size = quality.by_size(PATHS)
    assert quality.table(PATHS) == pytest.approx(by_size.mean(axis=1))
    assert quality.quality(PATHS[3]) == pytest.approx(by_size[3].mean())
    pooled = tables(by_size).mean(axis=1)
    assert quality.pooled_by_size(PATHS) == pytest.approx(pooled)


def test_joined_looks_weigh_by_the_squares_of_how_far_they_are_believed():
    rule = MergeRule(side=typical_sizes()[2], log_width=0.2, least=0.5)
    joined = joined_quality(np.full(5, 0.2), np.full(5, 0.7), rule)
    # Where both are believed equally, their mean; at the ends one counts a quarter of the other.
    assert joined[2] == pytest.approx(0.45)
    assert joined[0] == pytest.approx((0.25 * 0.2 + 0.7) / 1.25)
    assert joined[4] == pytest.approx((0.2 + 0.25 * 0.7) / 1.25)
