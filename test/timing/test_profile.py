import json
import math
from dataclasses import replace

import pytest
from invented_networks import InventedNetwork
from json_damage import put
from latency_profiles import BOARD, profile_of
from path_spaces import MATRICES
from plain_images import noise

from deadline_perception.core.device import read_device_facts
from deadline_perception.core.json_file import JsonFileError
from deadline_perception.timing.interference import Interference, WcetTable
from deadline_perception.timing.profile import LatencyProfile, measure_profile
from deadline_perception.timing.quantiles import Quantiles

FACTS = replace(BOARD, name='Test Board (R) 9', torch_version='2.9', cpu_capability='AVX2')
TIMES = Quantiles.from_samples([1.0, 2.0, 3.0])
WCET_MS = {'pre': 3.5, 'post@p10': 4.0}
PROFILE = profile_of({'pre': TIMES, 'post@p10': TIMES}, facts=FACTS)
HERE = {'network_hash': 'abc', 'facts': FACTS, 'input_size': (384, 640), 'engine': 'eager'}
IMAGE = noise(48, 64)


class Noting(InventedNetwork):
    """Notes the path of each frame."""

    def __init__(self):
        super().__init__(MATRICES)
        self.started = []

    def start(self, image_bgr, path):
        self.started.append(path)
        return super().start(image_bgr, path)


@pytest.fixture
def network():
    return Noting()


def test_measures_every_segment_often_enough_and_the_extreme_paths(network):
    seen, counts = [], {'repeats': 6, 'whole_paths': 5, 'path_repeats': 3, 'seed': 1}
    profile = measure_profile(network, [IMAGE], progress=lambda *of: seen.append(of), **counts)
    assert list(profile.segments) == list(network.path_space.carriers())
    assert min(times.count for times in profile.segments.values()) >= 6
    assert len(profile.paths) == 5 and {times.count for times in profile.paths.values()} == {3}
    assert {str(network.path_space.smallest), str(network.path_space.largest)} <= set(profile.paths)
    planned = seen[-1][1]
    assert [done for done, _, _ in seen] == list(range(1, planned + 1))
    assert len(network.started) >= planned  # paths whose frames were disturbed are timed again
    assert profile.input_size == profile.image_size == (48, 64)
    assert profile.network_hash == network.network_hash
    assert profile.facts == read_device_facts('cpu')
    for name, least in (('repeats', 1), ('whole_paths', 2), ('path_repeats', 1)):
        with pytest.raises(ValueError, match=name):
            measure_profile(network, [IMAGE], **{name: least - 1})
    for images in ([IMAGE, IMAGE[:16]], []):
        with pytest.raises(ValueError, match='expected one size'):
            measure_profile(network, images)


@pytest.mark.parametrize(('stalls', 'largest_ms'), [(1, 10.0), (1000, 100.0)])
def test_a_path_with_a_stall_is_timed_again(network, monkeypatch, stalls, largest_ms):
    segments_ms = [1.0] * len(network.path_space.segments)
    frames_of_largest = 0

    def timed(_, image, path):
        nonlocal frames_of_largest
        if path != network.path_space.largest:
            return 10.0, segments_ms
        frames_of_largest += 1
        is_stalled = frames_of_largest % 6 == 5 and frames_of_largest // 6 < stalls
        return 100.0 if is_stalled else 10.0, segments_ms

    monkeypatch.setattr('deadline_perception.timing.profile.time_frame', timed)
    profile = measure_profile(network, [IMAGE], repeats=1, whole_paths=2, path_repeats=12, seed=1)
    largest = profile.paths[str(network.path_space.largest)]
    assert largest.count == 12
    assert largest.max == largest_ms


def test_file_round_trip_is_exact_and_readable(tmp_path):
    file = tmp_path / 'new' / 'profile.json'
    wcet = WcetTable(WCET_MS, Interference((1.0, 10.0), (0.1, 2.0)))
    loaded = replace(PROFILE, paths={'whole': TIMES}, load_before=0.5)
    for kept in (loaded, replace(PROFILE, wcet=wcet)):
        kept.save(file)
        assert LatencyProfile.load(file) == kept
        lines = [line for line in file.read_text().splitlines() if '"p50"' in line]
        assert len(lines) == len(kept.segments) + len(kept.paths)


@pytest.mark.parametrize(
    ('change', 'there', 'here'),
    [
        ({'network_hash': 'xyz'}, "'abc'", "'xyz'"),
        ({'input_size': (512, 864)}, "'384x640'", "'512x864'"),
        ({'engine': 'cuda_graphs'}, "'eager'", "'cuda_graphs'"),
        ({'threads': 1}, 'threads is 2', '1 here'),
        ({'power_mode': 'MAXN'}, "'15W'", "'MAXN'"),
        ({'kind': 'cuda'}, "'cpu'", "'cuda'"),
        ({'name': 'Other'}, "'Test Board (R) 9'", "'Other'"),
        ({'multiprocessors': 16}, 'multiprocessors is 0', '16 here'),
        ({'torch_version': '3.0'}, "PyTorch version is '2.9'", "'3.0'"),
        ({'cpu_capability': 'AVX512'}, "'AVX2'", "'AVX512'"),
        ({'allocator': 'default'}, "'retaining'", "'default'"),
        ({'wait_policy': 'active'}, "'passive'", "'active'"),
    ],
)
def test_a_mismatch_names_both_values(change, there, here):
    changed = change if change.keys() <= HERE.keys() else {'facts': replace(FACTS, **change)}
    (difference,) = PROFILE.mismatches(**HERE | changed)
    assert there in difference and here in difference


@pytest.mark.parametrize(
    ('place', 'value', 'message'),
    [
        ('format', 1, 'no latency profile of format 2'),
        ('segments.pre.p05', math.nan, r"segments\['pre'\]: quantiles are .* expected finite"),
        ('segments', {}, 'no segment'),
        ('facts.threads', 0, 'threads'),
        ('segments.pre.max', 10**29, 'from 0 to 3600000'),
        ('input_size', [384], 'input_size'),
        ('image_size', [10**6, 10**6], 'image_size is .* at most 67108864 px'),
        ('wcet_ms', {'pre': 1.0}, '1 segments have worst-case times, expected the 2'),
        ('wcet_ms', {**WCET_MS, 'pre': -1.0}, 'worst-case times, expected .* at least 0'),
        ('interference_ms', [[1.0, 2.0]], 'interference is'),
    ],
)
def test_a_damaged_profile_is_refused_with_what_to_run(tmp_path, place, value, message):
    file = tmp_path / 'profile.json'
    PROFILE.save(file)
    content = {'wcet_ms': WCET_MS, **json.loads(file.read_text())}
    put(content, place, value)
    file.write_text(json.dumps(content))
    command = 'deadline-perception profile --weights WEIGHTS'
    with pytest.raises(JsonFileError, match=f'{message}.*{command}$'):
        LatencyProfile.load(file)
