"""An elastic network is a network of the package: profile, forecast, frontier and report serve it."""

import numpy as np
import pytest
import torch
from plain_images import noise

from deadline_perception.core.detections import Classification
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.extras.elastic.elastic import elastic
from deadline_perception.extras.elastic.network import (
    ElasticNetwork,
    image_batches,
    input_of,
    utilisation_space,
)
from deadline_perception.extras.elastic.source import NetworkSource
from deadline_perception.extras.evaluation.path_accuracy import detect_on_paths
from deadline_perception.timing.path_bound import PathForecast
from deadline_perception.timing.profile import measure_profile

IMAGE = noise(60, 80)


@pytest.fixture(scope='module')
def network() -> ElasticNetwork:
    source = NetworkSource('resnet18', ('cat', 'dog', 'fish'), (48, 64))
    data = torch.randn(8, 3, 48, 64, generator=torch.Generator().manual_seed(0))
    settings = (0.25, 0.5, 1.0)
    module = elastic(source.ordinary(), source.example_inputs, data, settings=settings)
    return ElasticNetwork(module, source)


def test_has_one_path_for_each_utilisation(network):
    assert [str(path) for path in network.path_space] == ['u0.25', 'u0.50', 'u1.00']
    with pytest.raises(ValueError, match='distinct label'):
        utilisation_space((0.101, 0.102, 1.0))


def test_every_path_gives_a_result_and_shares_what_is_alike(network):
    found = dict(detect_on_paths(network, IMAGE, list(network.path_space)))
    for path, result in found.items():
        assert isinstance(result, Classification)
        assert result.scores.sum() == pytest.approx(1.0, abs=1e-5)
        np.testing.assert_array_equal(result.scores, network.detect(IMAGE, path).scores)
    scores = [result.scores for result in found.values()]
    assert not np.allclose(scores[0], scores[-1], atol=1e-4)


def test_a_plan_can_change_until_the_layers_begin(network):
    run = network.start(IMAGE, network.path_space.largest)
    run.run_segment()
    run.redirect(network.path_space.smallest)
    run.run_segment()
    with pytest.raises(ValueError, match='contradicts'):
        run.redirect(network.path_space.largest)
    with pytest.raises(ValueError, match='expected it to have finished'):
        run.result()
    expected = network.detect(IMAGE, network.path_space.smallest).scores
    np.testing.assert_array_equal(run.finish().scores, expected)


def test_profile_forecast_and_frontier_serve_it(network):
    profile = measure_profile(
        network, [IMAGE], repeats=2, whole_paths=3, path_repeats=2, time_limit_s=5.0
    )
    forecast = PathForecast(profile, network.path_space)
    quality = PathQuality(dict(zip(network.path_space, (0.5, 0.7, 0.9))))
    policy = FrontierPolicy(network.path_space, forecast, quality)
    assert policy.plan(1e6, 1.0).path == network.path_space.largest
    assert not policy.plan(0.0, 1.0).feasible
    own = {name: getattr(network, name) for name in ('network_hash', 'input_size')}
    engine = network.engine.identity
    assert profile.mismatches(facts=profile.facts, engine=engine, **own) == []


def test_batches_hold_all_images(network):
    assert [len(batch) for batch in image_batches(network.source, [IMAGE] * 5, 2)] == [2, 2, 1]


@pytest.mark.parametrize('image', [IMAGE.astype(np.float32), IMAGE[:, :, 0], IMAGE[:0]])
def test_refuses_what_is_no_image(network, image):
    with pytest.raises(ValueError, match=r'expected uint8 \[height, width, 3\]'):
        input_of(network.source, image)
