from types import SimpleNamespace

import numpy as np
import pytest

from deadline_perception.decision.pass_quality import LookQuality, PassQuality
from deadline_perception.decision.scene import SIZE_NAMES

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


def network() -> SimpleNamespace:
    """Both see vehicles; the first look knows no lights, the closer one lists its classes the other way round."""
    return SimpleNamespace(
        parts=lambda path: path,
        class_names=('vehicle', 'light'),
        coarse=SimpleNamespace(class_names=('vehicle',)),
        fine=SimpleNamespace(class_names=('light', 'vehicle')),
    )


def tables(found: np.ndarray) -> np.ndarray:
    return found.reshape(len(PATHS), 2, len(SIZE_NAMES))


def test_a_look_is_as_good_as_measured_for_its_classes_and_of_two_the_better_one_counts():
    quality = PassQuality(network(), LookQuality(Overall()), LookQuality(Overall()))
    found = tables(quality.by_size(PATHS))
    of_classes = [(0.3, 0.0), (0.5, 0.5), (0.5, 0.5), (0.6, 0.6), (0.5, 0.5)]
    assert np.array_equal(found, np.array(of_classes)[:, :, None].repeat(5, axis=2))


def test_what_was_measured_by_size_goes_to_the_class_of_its_name():
    fine, coarse = LookQuality(Overall(), BySize()), LookQuality(Overall())
    found = tables(PassQuality(network(), fine, coarse).by_size(PATHS))
    # Its table lists lights first.
    assert found[1] == pytest.approx(np.array([LIGHT, VEHICLE]))
    assert found[0] == pytest.approx(np.array([[0.3] * 5, [0.0] * 5]))
    assert found[3, 0] == pytest.approx(np.maximum(0.4, LIGHT + 0.1))


def test_quality_is_the_mean_over_classes_and_sizes_in_an_unknown_scene():
    quality = PassQuality(network(), LookQuality(Overall()), LookQuality(Overall()))
    by_size = quality.by_size(PATHS)
    assert quality.table(PATHS) == pytest.approx(by_size.mean(axis=1))
    assert quality.quality(PATHS[3]) == pytest.approx(by_size[3].mean())
    pooled = tables(by_size).mean(axis=1)
    assert quality.pooled_by_size(PATHS) == pytest.approx(pooled)
    assert quality.scene.weights == pytest.approx([0.1] * 10)
