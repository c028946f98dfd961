import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from latency_profiles import profile_of

from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.networks.model_reference import load_network
from deadline_perception.networks.passes import PassesError
from deadline_perception.runtime.loading import (
    NetworkOptions,
    SetupError,
    load_task,
    pass_quality,
)
from deadline_perception.runtime.look_twice import (
    first_look_model,
    joined_profile,
    useful_sequences,
    with_passes,
)
from deadline_perception.timing.interference import Interference, WcetTable
from deadline_perception.timing.path_bound import PathForecast
from deadline_perception.timing.profile import LatencyProfile
from deadline_perception.timing.quantiles import Quantiles


@pytest.fixture(scope='module')
def street(repository):
    network, weights = load_network('street', 'cpu', engine='eager')
    load = lambda model: load_network(model, 'cpu', engine='eager')  # noqa: E731
    return network, with_passes(network, weights, load)[0]


def profile_at(network, ms: float) -> LatencyProfile:
    times = Quantiles.from_samples([ms])
    keys = network.path_space.carriers()
    return profile_of(
        dict.fromkeys(keys, times),
        {str(network.path_space.largest): Quantiles.from_samples([ms * len(keys)])},
        wcet=WcetTable(dict.fromkeys(keys, 2.0 * ms), Interference((), ())),
    )


def test_shipped_weights_name_the_network_of_their_first_look(repository, tmp_path):
    models = repository / 'models'
    assert first_look_model(models / 'street.safetensors') == 'street-first'
    assert first_look_model(models / 'street-open.safetensors') == ''
    content = {'format': 2, 'model': 'near.onnx', 'coarse': {'near': 'whole'}}
    (tmp_path / 'own.passes.json').write_text(json.dumps(content))
    (tmp_path / 'near.onnx').touch()
    assert first_look_model(tmp_path / 'own.safetensors') == str(tmp_path / 'near.onnx')
    (tmp_path / 'own.passes.json').write_text('{')
    with pytest.raises(PassesError, match='passes .* cannot be'):
        first_look_model(tmp_path / 'own.safetensors')


def test_times_of_two_networks_are_joined_segment_by_segment(street):
    network, passes = street
    fine, coarse = profile_at(network, 1.0), profile_at(passes.coarse, 3.0)
    joined = joined_profile(passes, fine, coarse)
    assert set(joined.segments) >= set(passes.path_space.carriers())
    assert joined.segments['coarse.head@r1.00'].p50 == 3.0
    assert joined.segments['stage1@r1.00-w1.00'].p50 == 1.0
    assert joined.wcet.segments_ms['coarse.head@r1.00'] == 6.0
    assert joined.paths['c736-alone'] == coarse.paths['r1.00']
    forecast = PathForecast(joined, passes.path_space)
    alone = passes.path_space.parse('c736-alone')
    both = passes.path_space.largest
    single = passes.single(network.path_space.largest)
    assert forecast.table([both])[0] == pytest.approx(
        forecast.table([alone])[0] + forecast.table([single])[0]
    )
    assert joined_profile(passes, fine, replace(coarse, wcet=None)).wcet is None


class FlatQuality:
    """A `PassQuality` by which a closer look finds so much, whatever it costs, and the first look 0.2."""

    def __init__(self, closer: float) -> None:
        self.closer = closer

    def pooled_by_size(self, paths) -> np.ndarray:
        return np.repeat(self.table(paths)[:, None], 5, axis=1)

    def table(self, paths) -> np.ndarray:
        return np.array([self.quality(path) for path in paths])

    def quality(self, path) -> float:
        if path['fine'] == 'none':
            return 0.2
        return max(self.closer, 0.2 * (path['coarse'] != 'none'))


def test_closer_looks_that_add_nothing_are_told(street):
    _, network = street
    looks = profile_at(network.fine, 1.0), profile_at(network.coarse, 1.0)
    profile = joined_profile(network, *looks)
    fine = [network.fine.path_space.largest]
    forecast = PathForecast(profile, network.path_space)
    for closer, is_told in ((0.2, True), (0.1, True), (0.25, False)):
        _, notice = useful_sequences(network, fine, FlatQuality(closer), forecast)
        assert ('no closer look adds' in notice) == is_told


def test_closer_looks_follow_the_best_first_one_and_every_operator_keeps_two_settings(
    street, repository
):
    network, passes = street
    profile = joined_profile(passes, profile_at(network, 1.0), profile_at(passes.coarse, 1.0))
    forecast = PathForecast(profile, passes.path_space)
    weights = [repository / f'models/{name}.safetensors' for name in ('street', 'street-first')]
    overall = PathQuality.load(weights[0].with_suffix('.quality.json'), network.path_space)
    quality = pass_quality((passes, weights[1]), overall, weights[0], forecast, {})
    kept, _ = useful_sequences(passes, list(network.path_space), quality, forecast)
    alone = {path['coarse'] for path in kept if path['fine'] == 'none'}
    assert alone == set(passes.coarse_paths)
    closer = [path for path in kept if path['fine'] != 'none']
    assert {path['coarse'] for path in closer} == {'736'}
    for operator in network.path_space.operators:
        assert len({path[operator.name] for path in closer}) > 1


def test_a_class_may_count_for_more(street, repository):
    network, passes = street
    profile = joined_profile(passes, profile_at(network, 1.0), profile_at(passes.coarse, 1.0))
    forecast = PathForecast(profile, passes.path_space)
    weights = [repository / f'models/{name}.safetensors' for name in ('street', 'street-first')]
    overall = PathQuality.load(weights[0].with_suffix('.quality.json'), network.path_space)
    of_weights = partial(pass_quality, (passes, weights[1]), overall, weights[0], forecast)
    longest = passes.path_space.largest
    table = of_weights({}).by_size([longest]).reshape(len(passes.class_names), -1)
    of_person = table[passes.class_names.index('person')].mean()
    assert of_weights({'person': 1e9, 'bike': 0.5}).quality(longest) == pytest.approx(of_person)
    assert of_weights({}).quality(longest) == pytest.approx(table.mean())
    for refused in ({'dog': 2.0}, {'person': 0.0}, {'person': '3'}):
        with pytest.raises(SetupError, match='class_weights are .* expected numbers above 0 for'):
            of_weights(refused)


def test_classes_count_where_an_image_is_looked_at_twice_alone(repository):
    once = {'engine': 'eager', 'two_passes': False}
    options = NetworkOptions('street', class_weights={'person': 3.0}, **once)
    with pytest.raises(SetupError, match='class_weights are .* looked at once, expected weights'):
        load_task(options, repository / 'models')
