import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from latency_profiles import BOARD as FACTS
from latency_profiles import profile_of
from path_spaces import BOTH, space_of
from plain_images import grey
from python_run import run_python

from deadline_perception.core.detections import Detections
from deadline_perception.core.device import process_environment, read_device_facts
from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.json_file import JsonFileError
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.decision.useful_paths import paths_of
from deadline_perception.engines.eager import Eager
from deadline_perception.engines.segment_store import store_origin
from deadline_perception.extras.preparation.store_writer import StoreWriter
from deadline_perception.networks.model_reference import ModelNotFound, load_network
from deadline_perception.runtime import loading
from deadline_perception.runtime.loading import (
    NetworkOptions,
    SetupError,
    environment_faults,
    load_profile,
    load_task,
    make_calibrator,
    make_policy,
)
from deadline_perception.timing.calibration import BoundCalibrator, CalibrationFile
from deadline_perception.timing.interference import WcetTable, interference_of
from deadline_perception.timing.part_bound import PartBound
from deadline_perception.timing.path_bound import SegmentForecast
from deadline_perception.timing.profile import (
    WCET_FRAMES,
    LatencyProfile,
    ProfileMismatch,
    default_profile_path,
    measure_profile,
)
from deadline_perception.timing.quantiles import Quantiles
from deadline_perception.timing.recent_times import RecentTimes, StartRatio
from deadline_perception.timing.transferred_profile import scaled_segments

IMAGE = grey(48, 64)


FORECAST = SimpleNamespace(start_ratio=lambda: StartRatio(0.0, 0.1))
BEGIN_MS = 10.0 * math.exp(2.8 * 0.1)


def test_a_kept_calibration_goes_on_only_where_it_was_learnt(tmp_path):
    options = NetworkOptions('compact', target_miss_probability=0.02)
    integral = BoundCalibrator(0.02, 0.05, math.log(8.0))
    learnt = PartBound(integral, RecentTimes(0.02, FORECAST.start_ratio()))
    for number in range(40):
        learnt.observe(10.0, 10.0 + 0.1 * number)
    here = CalibrationFile(tmp_path / 'factor.json', {'threads': 1})
    assert make_calibrator(options, FORECAST, here)[1] == []
    here.save(learnt.state())
    bound, begun_anew = make_calibrator(options, FORECAST, here)
    assert (bound.state(), begun_anew) == (learnt.state(), [])
    assert bound.bound_ms(10.0) == pytest.approx(learnt.bound_ms(10.0), rel=0.02)
    other = replace(options, target_miss_probability=0.1)
    bound, begun_anew = make_calibrator(other, FORECAST, here)
    assert (bound.integral.frames, bound.integral.alpha) == (0, 0.1)
    assert 'alpha is 0.02 in the file and 0.1 here; the calibration begins anew' in begun_anew[0]
    bound, begun_anew = make_calibrator(options, FORECAST, replace(here, origin={'threads': 2}))
    assert (bound.integral.frames, bound.bound_ms(10.0)) == (0, BEGIN_MS)
    assert 'threads is 1 in the file and 2 here; the calibration begins anew' in begun_anew[0]
    here.save({**learnt.state(), 'recent': None})
    bound, begun_anew = make_calibrator(options, FORECAST, here)
    assert (bound.integral.frames, bound.bound_ms(10.0)) == (0, BEGIN_MS)
    assert 'recent is None, expected object' in begun_anew[0]


NETWORK = SimpleNamespace(
    config_name='compact', network_hash='abc', input_size=(384, 640), engine=Eager()
)


def load(tmp_path, **changes):
    """Loads, on a board with two threads, a profile with changes."""
    profile = profile_of({'pre': Quantiles.from_samples([1.0])}, **changes)
    profile.save(tmp_path / 'profile.json')
    options = NetworkOptions('compact', profile=str(tmp_path / 'profile.json'), threads=2)
    return load_profile(options, NETWORK, FACTS, Path('w.safetensors'), tmp_path)[1]


COMMAND = 'deadline-perception profile --weights w.safetensors'


def test_a_profile_of_other_settings_degrades_the_node_or_is_refused_with_what_to_run(tmp_path):
    for changes, said in (
        ({}, ''),
        ({'clock_mhz': 9.0, 'cores': 2}, ''),
        ({'name': 'Other board'}, "device is 'Other board' in the profile and 'Board' here"),
        ({'threads': 1}, 'number of threads is 1'),
    ):
        told = load(tmp_path, facts=replace(FACTS, **changes))
        assert len(told) == bool(said)
        assert all(said in words and words.endswith(COMMAND) for words in told)
    for name, value, said in (
        ('network_hash', 'xyz', "network hash is 'xyz'"),
        ('input_size', (512, 864), "input size is '512x864'"),
        ('facts', replace(FACTS, kind='cuda'), 'measured on cuda'),
    ):
        with pytest.raises(ProfileMismatch, match=f'{said}.* Measure one: .*{COMMAND}'):
            load(tmp_path, **{name: value})


def test_a_process_without_its_settings_is_told_them_and_not_to_measure_what_it_has(
    tmp_path, monkeypatch
):
    options = NetworkOptions('compact', profile=str(tmp_path / 'profile.json'), threads=2)
    load(tmp_path)  # writes a profile of the settings that `profile` starts itself with
    bare = replace(FACTS, wait_policy='active')
    given = options, NETWORK, bare, Path('w.safetensors'), tmp_path
    monkeypatch.setenv('OMP_WAIT_POLICY', 'ACTIVE')
    assert environment_faults('cuda', 2) == environment_faults('cpu', 1) == []
    (fault,) = environment_faults('cpu', 2)
    assert '`env OMP_WAIT_POLICY=PASSIVE`' in fault
    assert load_profile(*given)[1] == []  # the fault says what to start it with
    monkeypatch.setenv('OMP_WAIT_POLICY', process_environment(2)['OMP_WAIT_POLICY'])
    assert environment_faults('cpu', 2) == []
    (told,) = load_profile(*given)[1]
    assert "wait policy is 'passive' in the profile and 'active' here" in told


def measured(network, images, **options):
    quick = {'repeats': 1, 'whole_paths': 2, 'path_repeats': 1, 'time_limit_s': 0.1}
    return measure_profile(network, images, **quick | options)


def test_times_scaled_beside_other_programs_are_scaled_anew_later(tmp_path, monkeypatch):
    """Of a network whose times come with the package, as measured on another, idle board."""
    from made_up_detector import TINY

    from deadline_perception.extras.weights_writer import build_detector

    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    network, facts = build_detector(TINY, ('vehicle',)), read_device_facts()
    there = measured(network, [grey(96, 160)], time_limit_s=1.0)
    (tmp_path / 'profiles').mkdir()
    replace(there, facts=replace(facts, name='Another board'), load_before=0.0).save(
        tmp_path / 'profiles' / 'tiny-any.json'
    )
    given = NetworkOptions('tiny'), network, facts, Path('w.safetensors'), tmp_path
    load = 20.0 * facts.cores
    monkeypatch.setattr('os.getloadavg', lambda: (load,) * 3)
    busy, told, keep = load_profile(*given)
    said = 'this device was not measured: times are scaled from those of Another board'
    assert any(said in words for words in told)
    assert busy.was_disturbed and busy.load_before == load
    assert not (tmp_path / 'cache').exists()  # not before all else has loaded
    keep()
    monkeypatch.setattr('os.getloadavg', lambda: (0.0, 0.0, 0.0))
    calm, _, keep = load_profile(*given)
    assert calm != busy and not calm.was_disturbed
    keep()
    assert load_profile(*given)[0] == calm and load_profile(*given)[2] is None


def test_an_absent_profile_is_refused_with_what_to_run(tmp_path, monkeypatch):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    given = NETWORK, FACTS, Path('w.safetensors'), tmp_path
    with pytest.raises(SetupError, match=COMMAND):
        load_profile(NetworkOptions('compact', threads=2), *given)
    with pytest.raises(JsonFileError, match='none.json'):
        load_profile(NetworkOptions('compact', profile=str(tmp_path / 'none.json')), *given)


@pytest.mark.slow
def test_a_device_that_was_not_measured_is_told_once_for_both_looks_and_one_command_measures_both(
    tmp_path, monkeypatch, repository
):
    from made_up_network import made_up_profile

    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    scaled = lambda network, *given: made_up_profile(network, scaled_from='Another board')  # noqa: E731
    monkeypatch.setattr(loading, '_transferred', scaled)
    loaded = load_task(NetworkOptions('street', engine='eager'), repository / 'models')
    (told,) = (words for words in loaded.degraded if 'was not measured' in words)
    assert told.endswith('deadline-perception profile --weights street')


SPACE = space_of(1, 1, widths=BOTH, proposals=(10, 100), heads=2)


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A network in good.safetensors with its times in good.json; nothing is in the cache."""
    from made_up_network import write_network

    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    return write_network(tmp_path)


EVEN_FORECAST = SegmentForecast(SPACE, dict.fromkeys(SPACE.carriers(), 2.0))


@pytest.mark.parametrize(
    'name, said',
    [
        ('oracle', "policy is 'oracle', expected frontier or package.module:callable"),
        ('no.module:Policy', 'No module named'),
        ('one_path_policies:dearest', "no attribute 'dearest'"),
    ],
)
def test_what_names_no_policy_is_refused(name, said):
    with pytest.raises(SetupError, match=f'policy {name} cannot be used: .*{said}'):
        make_policy(name, SPACE, EVEN_FORECAST, PathQuality.from_forecast(SPACE, EVEN_FORECAST))


@pytest.mark.parametrize('content, kept', [('export PATH=/opt/bin\n', False), ('', True)])
@pytest.mark.usefixtures('written')
def test_what_is_no_calibration_file_stays_and_is_told(tmp_path, content, kept):
    (tmp_path / '.profile').write_text(content)
    options = NetworkOptions(
        str(tmp_path / 'good.safetensors'),
        profile=str(tmp_path / 'good.json'),
        engine='eager',
        calibration_file=str(tmp_path / '.profile'),
    )
    loaded = load_task(options, tmp_path)
    refused = [word for word in loaded.degraded if 'calibration_file is' in word]
    assert (loaded.calibration_file is not None) == (not refused) == kept
    assert all('is left as it is' in word for word in refused)
    anew = [word for word in loaded.notices if 'the calibration begins anew' in word]
    assert bool(anew) == bool(loaded.notices) == kept
    assert (tmp_path / '.profile').read_text() == content
    if kept:
        origin = loaded.calibration_file.origin
        assert origin['profile'] == LatencyProfile.load(tmp_path / 'good.json').digest
        assert {'PyTorch version', 'CPU capability', 'engine'} <= set(origin)


@pytest.mark.slow
def test_prepared_segments_are_used_and_damaged_ones_told(prepared, tmp_path):
    network, _ = load_network(str(prepared.weights), 'cpu', tmp_path)
    measured(network, list(prepared.images[:2])).save(tmp_path / 'profile.json')
    options = NetworkOptions(str(prepared.weights), profile=str(tmp_path / 'profile.json'))
    loaded = load_task(options, tmp_path)
    assert loaded.task.network.engine.identity.startswith('openvino')
    assert not any('engine is' in word for word in loaded.degraded)
    space = loaded.task.network.path_space
    assert {space.smallest, space.largest} <= set(loaded.kept_paths)
    assert loaded.ready_paths == len(loaded.kept_paths) <= len(space)
    policy = loaded.task.policy
    assert all(
        policy.plan(budget_ms, 1.0).path in loaded.kept_paths for budget_ms in (0.0, 20.0, math.inf)
    )
    next(prepared.folder.glob('*.blob')).unlink()
    loaded = load_task(options, tmp_path)
    assert loaded.task.network.engine.identity == 'eager'
    (notice,) = (word for word in loaded.notices if 'run eagerly' in word)
    assert 'damaged' in notice and 'deadline-perception profile' in notice
    assert any("engine is 'openvino" in word and "'eager' here" in word for word in loaded.degraded)
    with pytest.raises(DeadlinePerceptionError, match='engine is openvino, but .* damaged'):
        load_task(replace(options, engine='openvino'), tmp_path)


@pytest.mark.slow
def test_a_detector_with_prepared_segments_answers_without_pytorch(prepared, tmp_path):
    """In a process of its own, as the libraries of this one stay loaded; the weights are loaded when it lacks a segment."""
    program = """
import sys
from pathlib import Path
import numpy as np
from deadline_perception.core.device import use_threads
from deadline_perception.deadline_detector import DeadlineDetector
from deadline_perception.networks.model_reference import load_network
from deadline_perception.runtime.loading import NetworkOptions
from deadline_perception.timing.profile import measure_profile

weights, profile = sys.argv[1:]
image = np.random.default_rng(0).integers(0, 256, (50, 80, 3), dtype=np.uint8)
use_threads(1)
network, _ = load_network(weights, 'cpu')
measured = measure_profile(network, [image, image], repeats=1, whole_paths=2, path_repeats=1)
measured.save(Path(profile))
with DeadlineDetector(NetworkOptions(weights, profile=profile, threads=1)) as detector:
    detector.detect(image, budget_ms=10_000.0)
print('torch' in sys.modules)
key = next(key for key in network.engine.forms if key.startswith('stage1'))
del network.engine._store.segments[key]
network.engine._compiled.clear()
network.detect(image)
print(sys.modules['torch'].get_num_threads())
"""
    told = run_python('-c', program, prepared.weights, tmp_path / 'profile.json')
    assert told.stdout.split() == ['False', '1'], told.stderr


def test_what_was_not_prepared_or_measured_is_not_planned(prepared, tmp_path):
    network, _ = load_network(str(prepared.weights), 'cpu', tmp_path)
    space, facts = network.path_space, read_device_facts('cpu')
    whole = measured(network, list(prepared.images[:2]))
    whole.save(tmp_path / 'whole.json')
    few = [path for path in space if path['proposals'] == 5]
    part = measured(network, list(prepared.images[:2]), among=few)
    assert set(part.paths) == set(map(str, few)) and part.segments.keys() < whole.segments.keys()
    replace(part, segments=scaled_segments(whole.segments, part.segments)).save(
        tmp_path / 'part.json'
    )
    options = NetworkOptions(str(prepared.weights), profile=str(tmp_path / 'part.json'))
    assert list(load_task(options, tmp_path).kept_paths) == few
    store = StoreWriter.load(prepared.folder, store_origin(facts))
    store.done = set(space.keys(few[0]))
    store.finish(())
    for profile in ('part', 'whole'):
        loaded = load_task(replace(options, profile=str(tmp_path / f'{profile}.json')), tmp_path)
        assert loaded.kept_paths == paths_of(space, space.keys(few[0]))
        assert loaded.ready_paths < len(few)
        assert loaded.task.policy.plan(math.inf, 1.0).path in loaded.kept_paths
        assert not any('--all-paths' in word for word in loaded.degraded)
    loaded = load_task(replace(options, policy='one_path_policies:largest'), tmp_path)
    (notice,) = (word for word in loaded.degraded if '--all-paths' in word)
    assert loaded.kept_paths is None and 'paths run eagerly in part' in notice


def test_any_callable_gives_the_network_and_without_a_table_longer_paths_are_better(tmp_path):
    model = 'invented_networks:make_magnifier'
    network, _ = load_network(model, 'cpu', tmp_path)
    measured(network, [IMAGE]).save(tmp_path / 'profile.json')
    options = NetworkOptions(model, profile=str(tmp_path / 'profile.json'))
    loaded = load_task(options, tmp_path)
    assert loaded.task.network.result_type is Detections
    choice = loaded.task.policy.plan(math.inf, 1.0)
    assert choice.path in network.path_space and choice.feasible
    for model, said in (
        ('no_such_module:make', 'No module named'),
        ('invented_networks:make_none', 'make_none'),
    ):
        message = f'{model} is not there, expected package.module:callable: .*{said}'
        with pytest.raises(ModelNotFound, match=message):
            load_network(model, 'cpu', tmp_path)
    with pytest.raises(ModelNotFound, match='math:pi is 3.14.*, expected a callable'):
        load_network('math:pi', 'cpu', tmp_path)


def test_one_path_of_a_network_is_the_only_one_that_runs(tmp_path, written):
    path = written.path_space.smallest
    named = f'{tmp_path / "good.safetensors"}:{path}'
    profile = str(tmp_path / 'good.json')
    loaded = load_task(NetworkOptions(named, profile=profile, engine='eager'), tmp_path)
    assert loaded.kept_paths == (path,) and loaded.ready_paths == 1
    for budget_ms in (0.0, 55.0, math.inf):
        assert loaded.task.policy.plan(budget_ms, 1.0).path == path


@pytest.fixture
def measured_at_once(tmp_path, written, monkeypatch):
    """Whoever measures gets the times that were written."""
    profile = LatencyProfile.load(tmp_path / 'good.json')
    monkeypatch.setattr(loading, 'measure_profile', lambda *given, **more: profile)
    monkeypatch.setattr(loading, 'with_wcet', lambda profile, *given, **more: profile)


@pytest.mark.usefixtures('measured_at_once')
def test_a_network_that_cannot_be_loaded_to_the_end_leaves_no_times_behind(tmp_path, written):
    (tmp_path / 'good.quality.json').write_text('{}')
    for name in ('good.safetensors', f'good.safetensors:{written.path_space.smallest}'):
        options = NetworkOptions(str(tmp_path / name), engine='eager')
        with pytest.raises(DeadlinePerceptionError, match='qualities'):
            load_task(options, tmp_path, images=lambda: [IMAGE])
    assert not list((tmp_path / 'cache').rglob('*.json'))


@pytest.mark.parametrize('frames', [WCET_FRAMES, WCET_FRAMES - 1, None])
def test_paths_are_planned_by_worst_cases_where_the_profile_has_enough_of_them(tmp_path, frames):
    model = 'invented_networks:make_magnifier'
    network, _ = load_network(model, 'cpu', tmp_path)
    profile = measured(network, [IMAGE])
    worst_ms = dict.fromkeys(network.path_space.carriers(), 60_000.0)
    if frames is not None:
        table = WcetTable(worst_ms, interference_of([], 1000.0, 0.01))
        name, times = next(iter(profile.paths.items()))
        paths = {name: replace(times, count=frames)}
        profile = replace(profile, wcet=table, paths=paths)
    profile.save(tmp_path / 'profile.json')
    options = NetworkOptions(model, profile=str(tmp_path / 'profile.json'), bounds='wcet')
    loaded = load_task(options, tmp_path)
    largest = network.path_space.largest
    count = len(list(network.path_space.keys(largest)))
    plan, times = loaded.task.policy.plan(math.inf, 1.0), loaded.task.times.begin(1.0)
    said = [words for words in loaded.degraded if words.startswith('bounds is wcet')]
    if frames == WCET_FRAMES:
        assert not said and plan.bound_ms == times.bound_ms(largest) == 60_000.0 * count
        assert not loaded.task.policy.plan(59_000.0, 1.0).feasible
        return
    assert plan.bound_ms < 60_000.0 and times.bounds == 'calibrated'
    assert len(said) == 1 and 'bounds are calibrated' in said[0]
    assert f'has {"no" if frames is None else "some"} worst cases, of ' in said[0]


@pytest.mark.usefixtures('measured_at_once')
def test_cached_times_of_another_network_are_measured_anew(tmp_path, written):
    from made_up_network import made_up_profile

    foreign = made_up_profile(written, network_hash='another')
    place = default_profile_path(written.config_name, foreign.facts)
    foreign.save(place)
    options = NetworkOptions(
        str(tmp_path / 'good.safetensors'), engine='eager', threads=foreign.facts.threads
    )
    with pytest.raises(ProfileMismatch, match='network hash'):
        load_task(options, tmp_path)
    loaded = load_task(options, tmp_path, images=lambda: [IMAGE])
    assert any('does not fit: network hash' in words for words in loaded.degraded)
    assert LatencyProfile.load(place).network_hash == written.network_hash
