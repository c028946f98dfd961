import numpy as np
import pytest
from plain_images import grey

from deadline_perception.extras.rendered_drive.object_views import ObjectView
from deadline_perception.extras.rendered_drive.single_object import render_object
from deadline_perception.extras.several_networks.classifier.classes import BACKGROUND
from deadline_perception.extras.training.crop_samples import CropSource, augmented

NAMES = (BACKGROUND, 'stop', 'give_way')
PLAIN = grey(30, 30, 120)


def views(name, count, seed=0):
    generators = [np.random.default_rng([seed, number]) for number in range(count)]
    return [render_object(generator, name, 24.0, PLAIN) for generator in generators]


@pytest.fixture(scope='module')
def source():
    unsure, nothing = (
        ObjectView(PLAIN, (5, 5, 25, 25), names) for names in (('stop', 'give_way'), (BACKGROUND,))
    )
    others = [*views('give_way', 2), unsure, nothing]
    return CropSource([views('stop', 4), others, views('stop', 9, seed=1)], NAMES, 32)


def test_batches_are_decided_by_their_generator_and_evenly_over_classes(source):
    one, same, other = (source.draw(np.random.default_rng(seed), 240) for seed in (4, 4, 5))
    assert one.crops.shape == (240, 32, 32, 3) and one.crops.dtype == np.uint8
    np.testing.assert_array_equal(one.crops, same.crops)
    assert (one.crops != other.crops).any()
    rows = [tuple(row) for row in one.possible.tolist()]
    share = {row: rows.count(row) / 240 for row in set(rows)}
    # Background counts three times, 13 views of stop no more than 2 others.
    assert 0.5 < share.pop((True, False, False)) < 0.7
    assert 0.13 < share.pop((False, True, False)) < 0.27
    assert 0.13 < share.pop((False, False, True)) < 0.27
    assert 0.0 < share.pop((False, True, True)) < 0.06
    assert not share


def test_an_object_at_the_edge_does_not_end_the_training_and_unknown_classes_are_refused():
    view = ObjectView(PLAIN, (0, 0, 29, 4), ('stop',))
    for seed in range(50):
        assert augmented(view, np.random.default_rng(seed), 32).shape == (32, 32, 3)
    with pytest.raises(ValueError, match="a view is of class 'warning'"):
        CropSource([views('warning', 1)], NAMES, 32)
    with pytest.raises(ValueError, match='there is no view'):
        CropSource([[]], NAMES, 32)
