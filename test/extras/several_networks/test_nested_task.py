"""Tasks of invented networks and of a made-up detector: levels, bounds, options, and what jobs teach."""

import json

import pytest
from invented_networks import make_classifier, make_magnifier, make_single
from plain_images import noise
from scheduled_jobs import ended_job

from deadline_perception.extras.several_networks.nested_task import evenly_spaced, load_nested_task
from deadline_perception.extras.several_networks.scheduling.quality import TotalAccuracy
from deadline_perception.extras.several_networks.task_file import TaskRequest
from deadline_perception.runtime.job import Outcome
from deadline_perception.runtime.loading import SetupError
from deadline_perception.timing.profile import measure_profile

IMAGE = noise(48, 64)


@pytest.fixture(scope='module')
def profiles(tmp_path_factory):
    """Profiles with times that rise with the settings, whatever this machine does meanwhile."""
    folder = tmp_path_factory.mktemp('profiles')
    for make in (make_classifier, make_magnifier, make_single):
        file = folder / f'{make.__name__}.json'
        measure_profile(make(), [IMAGE], repeats=3, whole_paths=2, path_repeats=2).save(file)
        content = json.loads(file.read_text())
        for rank, segment in enumerate(content['segments'].values()):
            times = [key for key, value in segment.items() if isinstance(value, float)]
            segment.update(dict.fromkeys(times, 2.0 + rank))
        content['paths'] = {}
        file.write_text(json.dumps(content))
    return folder


@pytest.fixture
def load(profiles, tmp_path):
    def make(name, maker='make_magnifier', **settings):
        request = TaskRequest(
            name,
            f'invented_networks:{maker}',
            settings.pop('periods_ms', (100.0, 200.0)),
            profile=str(profiles / f'{maker}.json'),
            **settings,
        )
        return load_nested_task(request, tmp_path, warm=False)

    return make


def test_segments_are_shorter_than_their_jobs_and_deadlines_go_with_the_options(load):
    task = load('front', deadline_ms=150.0)
    segments, bounds = task.segments_ms(), task.bounds_ms()
    assert segments == tuple(sorted(segments))
    assert all(segment < bound for segment, bound in zip(segments, bounds))
    options = task.options(10.0, bounds, segments)
    expected = {(100.0, 100.0), (200.0, 150.0)}
    assert {(option.period_ms, option.deadline_ms) for option in options} == expected
    assert [option.segment_ms for option in options[::2]] == list(segments)


def test_named_levels_and_few_levels(load):
    names = tuple(map(str, load('front').paths))
    assert tuple(map(str, load('front', levels=names[:2]).paths)) == names[:2]
    assert tuple(map(str, load('front', levels=2).paths)) == (names[0], names[-1])
    with pytest.raises(SetupError, match="task front: execution path is 'nonsense'"):
        load('front', levels=('nonsense',))
    assert evenly_spaced('abcdef', [1.0, 2.0, 4.0, 9.0, 16.0, 81.0], 3) == ('a', 'd', 'f')
    assert evenly_spaced('abc', [1.0, 2.0, 3.0], 1) == ('a',)


def test_an_accuracy_table_makes_total_accuracy(load, tmp_path):
    file = tmp_path / 'accuracy.json'
    accuracy = [[0.5, 0.6], [0.6, 0.7], [0.7, 0.8], [0.8, 0.9]]
    levels = ['l1', 'l2', 'l3', 'l4']
    facts = {'levels': levels, 'sizes_px': [8, 32], 'accuracy': accuracy}
    file.write_text(json.dumps(facts))
    task = load('signs', 'make_classifier', quality=str(file), distance_m=30.0)
    assert isinstance(task.quality, TotalAccuracy) and task.quality.approach.distance_m == 30.0
    assert [str(path) for path in task.paths] == levels
    few = load('signs', 'make_classifier', quality=str(file), levels=('l1', 'l4'))
    assert few.quality.table.accuracy == ((0.5, 0.6), (0.8, 0.9))
    with pytest.raises(SetupError, match='levels are l9, expected some of l1'):
        load('signs', 'make_classifier', quality=str(file), levels=('l9',))


def record(task, took_ms, outcome=Outcome.DETECTED):
    return ended_job(outcome, period_ms=1e4, ended_ms=took_ms, bound_ms=task.bounds_ms()[0])


def test_bounds_grow_with_slowdown_and_with_jobs_that_overrun(load):
    task = load('front')
    before = task.bounds_ms()
    assert before == tuple(sorted(before))
    task.slowdown = 2.0
    assert all(after > 1.5 * bound for after, bound in zip(task.bounds_ms(), before))
    task.slowdown = 1.0
    for outcome in (Outcome.FAILED, Outcome.HUNG):
        task.observe(record(task, 1e4, outcome))
    task.observe(record(task, 0.5, Outcome.ABORTED))  # for want of time, not for being slow
    assert task.bounds_ms() == before and task.bound.integral.frames == 0
    for _ in range(3):
        task.observe(record(task, 1e3, Outcome.ABORTED))
        task.observe(record(task, 1e3))
    assert task.bound.integral.misses == 6
    assert all(after > bound for after, bound in zip(task.bounds_ms(), before))


@pytest.mark.parametrize(
    'model, words',
    [
        ('nothing', 'task front: weights file nothing does not exist'),
        ('invented_networks:make_single', 'task front: no latency profile'),
    ],
)
def test_what_is_missing_is_named_with_its_task(tmp_path, model, words):
    with pytest.raises(SetupError, match=words):
        load_nested_task(TaskRequest('front', model, (100.0,)), tmp_path, warm=False)
