from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from made_up_detector import TINY

from deadline_perception.timing import transferred_profile
from deadline_perception.timing.profile import measure_profile
from deadline_perception.timing.quantiles import Quantiles
from deadline_perception.timing.transferred_profile import find_reference, scaled_segments, transfer

IMAGE = np.random.default_rng(0).integers(0, 256, (96, 160, 3), np.uint8)


def times(median_ms: float) -> Quantiles:
    factors = 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 2.0
    return Quantiles(*(median_ms * factor for factor in factors), count=50)


def test_what_was_timed_stays_and_the_rest_takes_the_median_factor_of_its_kind():
    measured_ms = {
        'stage1@w1.00': (2.0, 4.0),
        'stage2@w1.00': (4.0, 12.0),
        'stage2@w0.50': (1.0, 5.0),
        'stage2@w0.25': (0.5, None),
        'head@h0': (3.0, 9.0),
        'head@h1': (5.0, None),
        'post': (1.0, None),
    }
    reference = {key: times(there) for key, (there, _) in measured_ms.items()}
    here = {key: times(timed) for key, (_, timed) in measured_ms.items() if timed}
    scaled = scaled_segments(reference, here)
    assert list(scaled) == list(reference) and all(scaled[key] is here[key] for key in here)
    assert scaled['stage2@w0.25'].p50 == pytest.approx(0.5 * 3.0)  # of 2, 3 and 5
    assert scaled['head@h1'].p50 == pytest.approx(5.0 * 3.0)
    assert scaled['head@h1'].max == pytest.approx(5.0 * 3.0 * 2.0)
    # No segment of its kind was timed: of 2, 3, 5 and 3.
    assert scaled['post'].p50 == pytest.approx(1.0 * 3.0)
    counts = [scaled[key].count for key in ('stage1@w1.00', 'stage2@w0.25', 'post')]
    assert counts == [50, 0, 0], 'none of an estimate'
    estimates = {key: replace(found, count=0) for key, found in reference.items()}
    assert scaled_segments(reference, {}) == estimates


@pytest.fixture(scope='module')
def detector():
    from deadline_perception.extras.weights_writer import build_detector

    return build_detector(TINY, ('vehicle', 'bike'))


@pytest.fixture(scope='module')
def reference(detector):
    counts = {'repeats': 1, 'whole_paths': 3, 'path_repeats': 1}
    return measure_profile(detector, [IMAGE], time_limit_s=5.0, **counts)


@pytest.mark.parametrize(('enough_s', 'count'), [(0.0, 2), (1000.0, 5)])
def test_a_slow_network_is_timed_less_often(detector, reference, monkeypatch, enough_s, count):
    monkeypatch.setattr(transferred_profile, '_ENOUGH_S', enough_s)
    found = transfer(reference, detector, paths=2, repeats=10)
    assert {of_path.count for of_path in found.paths.values()} == {count}


def test_the_reference_is_of_the_same_network_processor_and_engine(detector, reference, tmp_path):
    facts = reference.facts
    newer = replace(reference, engine='openvino 2')  # which none of these fits
    variants = [
        replace(newer, segments=dict([*reference.segments.items()][1:])),
        replace(reference, engine='openvino 1'),
        replace(reference, engine='eager'),
        replace(newer, facts=replace(facts, threads=facts.threads + 1)),
        replace(newer, network_hash='other'),
        replace(newer, facts=replace(facts, kind='cuda')),
    ]
    for number, profile in enumerate(variants):
        profile.save(tmp_path / f'{reference.config_name}-{number}.json')
    (tmp_path / f'{reference.config_name}-damaged.json').write_text('{')
    names = 'config_name', 'network_hash', 'input_size', 'path_space'
    network = SimpleNamespace(**{name: getattr(detector, name) for name in names})
    third = SimpleNamespace(**{**vars(network), 'network_hash': 'third'})
    assert find_reference(tmp_path, network, facts, 'openvino 2').engine == 'openvino 1'
    assert find_reference(tmp_path, network, facts, 'eager').engine == 'eager'
    assert find_reference(tmp_path, third, facts, 'eager') is None
    assert find_reference(tmp_path / 'missing', network, facts, 'eager') is None
