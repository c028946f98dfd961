import numpy as np
import pytest
import torch
from plain_images import grey

from deadline_perception.extras.evaluation.crop_accuracy import measure_accuracy
from deadline_perception.extras.rendered_drive.object_views import ObjectView
from deadline_perception.extras.rendered_drive.single_object import render_views
from deadline_perception.extras.several_networks.classifier.network import (
    ClassifierConfig,
    build_classifier,
)

NAMES = ('background', 'stop', 'warning')
PLAIN = grey(40, 40, 120)


def test_counts_right_answers_by_class_level_and_size():
    config = ClassifierConfig(channels=(4, 4, 4, 4), ratios=(0.5, 1.0))
    always_stop = build_classifier(config, NAMES)  # whatever it sees
    with torch.no_grad():
        always_stop.head.weight.zero_()
        always_stop.head.bias.copy_(torch.tensor([0.0, 5.0, 0.0]))
    views = (
        render_views(('stop',), 6, [PLAIN], seed=1, sizes_px=(30.0, 31.0))
        + render_views(('warning',), 3, [PLAIN], seed=1, sizes_px=(14.0, 15.0))
        + [ObjectView(PLAIN, (5, 5, 35, 35), ('stop', 'warning'))]
    )
    told = []
    found = measure_accuracy(
        always_stop, views, (8, 12, 24), progress=lambda done, total: told.append((done, total))
    )
    assert found.class_names == ('stop', 'warning', 'stop or warning') and told[-1] == (10, 10)
    assert found.objects.tolist() == [[6, 6, 6], [3, 3, 0], [1, 1, 1]]
    np.testing.assert_array_equal(found.right[0], [[1, 1, 1], [0, 0, np.nan], [1, 1, 1]])
    np.testing.assert_array_equal(found.right[0], found.right[1])
    np.testing.assert_allclose(found.accuracy(), [[0.5, 0.5, 1]] * 2)
    np.testing.assert_allclose(found.accuracy(('warning', 'stop')), [[0.5, 0.5, 1]] * 2)
    np.testing.assert_allclose(found.accuracy(('warning',)), [[0, 0, np.nan]] * 2)
    with pytest.raises(ValueError, match='no object of a known class is 64 px long or longer'):
        measure_accuracy(always_stop, views, (8, 64))
