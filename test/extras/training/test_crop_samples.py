import numpy as np
import pytest
from plain_images import grey

from deadline_perception.extras.rendered_drive.object_views import ObjectView
from deadline_perception.extras.several_networks.classifier.classes import BACKGROUND
from deadline_perception.extras.training.crop_samples import CropSource, augmented

NAMES = (BACKGROUND, 'stop', 'give_way')
PLAIN = grey(30, 30, 120)


def test_an_object_at_the_edge_does_not_end_the_training_and_unknown_classes_are_refused():
    view = ObjectView(PLAIN, (0, 0, 29, 4), ('stop',))
    for seed in range(50):
        assert augmented(view, np.random.default_rng(seed), 32).shape == (32, 32, 3)
    with pytest.raises(ValueError, match="a view is of class 'warning'"):
        CropSource([[ObjectView(PLAIN, (0, 0, 29, 29), ('warning',))]], NAMES, 32)
    with pytest.raises(ValueError, match='there is no view'):
        CropSource([[]], NAMES, 32)
