"""Resampled average precision equals that of images really repeated."""

import numpy as np
import pytest
from made_up_labels import known

from deadline_perception.core.detections import Detections
from deadline_perception.extras.data.records import GroundTruth
from deadline_perception.extras.evaluation.average_precision import average_precision
from deadline_perception.extras.evaluation.resampled_precision import bootstrap_draws, resampled_ap

NAMES = ('vehicle', 'bike', 'traffic_light')
ONE = known([0, 0, 9, 9, 0, 0])


def made_up(images: int, seed: int) -> tuple[list[Detections], list[GroundTruth]]:
    """Objects of two classes, most of them found inexactly, with false alarms; some images hold nothing."""
    rng = np.random.default_rng(seed)
    detections, ground_truths = [], []
    for index in range(images):
        count = 0 if index % 4 == 3 else int(rng.integers(1, 5))
        low = rng.uniform(0, 300, (count, 2))
        boxes = np.hstack([low, low + rng.uniform(10, 100, (count, 2))])
        labels = rng.choice([0, 2], count)
        ground_truths.append(GroundTruth(boxes, labels, rng.random(count) < 0.1))
        right = boxes[rng.random(count) < 0.8] + rng.normal(0, 2, 4)
        found = np.vstack([right, rng.uniform(0, 40, (2, 4)) + [0, 0, 60, 60]])
        detections.append(Detections(found, rng.random(len(found)), rng.choice([0, 2], len(found))))
    return detections, ground_truths


@pytest.mark.parametrize('seed', range(3))
def test_equals_the_precision_of_images_repeated(seed):
    detections, ground_truths = made_up(12, seed)
    draws = np.vstack([np.ones((1, 12), int), bootstrap_draws(12, 4, seed)])
    for counts, value in zip(draws, resampled_ap(detections, ground_truths, NAMES, draws)):
        repeated = np.repeat(np.arange(12), counts)
        images = ([given[i] for i in repeated] for given in (detections, ground_truths))
        expected = average_precision(*images, NAMES)
        assert value == pytest.approx(expected.ap, abs=1e-12)


def test_a_draw_without_objects_is_nan_and_nothing_found_is_zero():
    ground_truths = [ONE, known()]
    draws = np.array([[2, 0], [0, 2]])
    values = resampled_ap([Detections.none()] * 2, ground_truths, NAMES, draws)
    assert values[0] == 0.0 and np.isnan(values[1])
    assert np.isnan(resampled_ap([], [], NAMES, np.zeros((1, 0), int))[0])


def test_draws_take_as_many_images_as_there_are_neighbours_together_and_are_repeatable():
    draws = bootstrap_draws(20, 50, seed=3)
    assert draws.shape == (50, 20) and (draws.sum(1) == 20).all() and draws.min() == 0
    assert np.array_equal(draws, bootstrap_draws(20, 50, seed=3))
    with pytest.raises(ValueError, match='0 draws of 5 images, expected at least 1 of each'):
        bootstrap_draws(5, 0)
    for counts in bootstrap_draws(40, 200):
        ends = np.flatnonzero(counts != np.roll(counts, 1))
        assert counts.sum() == 40 and len(ends) <= 10, 'five runs have ten ends'
    assert (bootstrap_draws(40, 400).mean(0) > 0.7).all(), (
        'the first images are drawn as often as others'
    )
    assert bootstrap_draws(3, 50).max() > 1, 'few images are drawn one by one'
