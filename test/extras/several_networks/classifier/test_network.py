from dataclasses import replace

import numpy as np
import pytest
import torch
from plain_images import grey, noise

from deadline_perception.extras.several_networks.classifier.network import (
    ClassifierConfig,
    build_classifier,
)

NAMES = ('background', 'stop', 'give_way')


@torch.no_grad()
def with_statistics(config=ClassifierConfig()):
    """A classifier whose norms have statistics, scale and shift of their own at each level, as training leaves them."""
    network = build_classifier(config, NAMES, seed=3)
    generator = torch.Generator().manual_seed(5)
    for norm in network.norms:
        for rows, low, high in (
            (norm.mean, -1.0, 1.0),
            (norm.deviation, 0.5, 2.0),
            (norm.weight, 0.5, 1.5),
            (norm.bias, -0.5, 0.5),
        ):
            rows.uniform_(low, high, generator=generator)
    return network


@pytest.fixture(scope='module')
def network():
    return with_statistics()


@pytest.fixture(scope='module')
def crop():
    return noise(24, 40, 1)


@pytest.mark.parametrize('level', [0, 3, 7, 9])
def test_a_level_gives_what_a_network_cut_to_it_gives(network, crop, level):
    ratio = network.config.ratios[level]
    counts = tuple(round(count * ratio) for count in network.config.channels)
    cut = build_classifier(replace(network.config, channels=counts, ratios=(1.0,)), NAMES)
    weights, before = {}, 3
    for number, count in enumerate(counts):
        convolution = network.convolutions[number]
        norm = network.norms[number]
        weights[f'convolutions.{number}.weight'] = convolution.weight[:count, :before]
        for name in ('weight', 'bias', 'mean', 'deviation'):
            weights[f'norms.{number}.{name}'] = getattr(norm, name)[[level], :count]
        before = count
    weights |= {'head.weight': network.head.weight[:, :, :before], 'head.bias': network.head.bias}
    cut.load_state_dict(weights)
    path = network.path_space.parse(f'l{level + 1}')
    expected = cut.detect(crop, cut.path_space.largest).scores
    np.testing.assert_allclose(network.detect(crop, path).scores, expected, atol=1e-6)


def test_norms_folded_into_convolutions_change_nothing(crop):
    network = with_statistics()
    ratio, pixels = network.config.ratios[6], network.normalise_crops(network.resize(crop)[None])
    for norm in network.norms:
        norm.folds = False
    with torch.no_grad():
        apart = network.logits(pixels, ratio)
        folded = network.eval().logits(pixels, ratio)  # drops the weights that were laid out
    assert all(norm.folds for norm in network.norms)
    torch.testing.assert_close(folded, apart, atol=1e-4, rtol=1e-4)


def test_channels_in_another_order_compute_the_same_at_the_largest_level(crop):
    network = with_statistics()
    space = network.path_space
    largest, smallest = (
        network.detect(crop, path).scores for path in (space.largest, space.smallest)
    )
    generator = np.random.default_rng(2)
    orders = [generator.permutation(count).tolist() for count in network.config.channels]
    network.reorder(orders)
    np.testing.assert_allclose(network.detect(crop, space.largest).scores, largest, atol=1e-5)
    assert np.abs(network.detect(crop, space.smallest).scores - smallest).max() > 1e-4
    assert network.channel_orders == tuple(map(tuple, orders))
    network.reorder([np.argsort(order).tolist() for order in orders])
    np.testing.assert_array_equal(network.detect(crop, space.smallest).scores, smallest)
    assert network.channel_orders[0] == tuple(range(64))
    with pytest.raises(ValueError, match='orders have .* places, expected a permutation of'):
        network.reorder([[0] * 64, *orders[1:]])


@pytest.mark.parametrize('wrong', [grey(0, 4), np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3))])
def test_a_crop_that_is_none_is_refused(network, wrong):
    run = network.start(wrong, network.path_space.smallest)
    with pytest.raises(ValueError, match=r'crop is .*, expected uint8 \[height, width, 3\].*1 px'):
        run.run_segment()


def test_times_are_measured_on_a_window_of_a_camera_image(network):
    assert network.example(grey(380, 640)).shape == (64, 64, 3)
    assert network.example(grey(20, 640)).shape == (20, 20, 3)
