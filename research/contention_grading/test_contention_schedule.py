import os
import signal

import pytest
from contention_schedule import (
    SHAPES,
    Schedule,
    Step,
    make_schedule,
    play,
    read_schedule,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st
from waiting import wait

from deadline_perception.core.json_file import JsonFileError
from deadline_perception.timing.contention.load import ContentionLoad

SCHEDULE = Schedule(
    (Step(0.5, {'core': 1}), Step(2.0), Step(3.0, {'core': 2, 'memory': 1})), lasts_s=4.0
)


def test_the_most_units_of_each_kind():
    assert SCHEDULE.most == {'core': 2, 'memory': 1}


def test_a_file_is_read_back_as_it_was_written(tmp_path):
    SCHEDULE.save(tmp_path / 'schedule.json')
    assert Schedule.load(tmp_path / 'schedule.json') == SCHEDULE
    assert read_schedule(str(tmp_path / 'schedule.json'), 0, 10.0, {'core': 4}) == SCHEDULE


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('{"steps": [{"at_s": 0}]}', "'lasts_s'"),
        ('{"lasts_s": 4, "steps": []}', 'at least one'),
        ('{"lasts_s": 4, "steps": [{"at_s": 0, "disk": 1}]}', "'disk'"),
        ('{"lasts_s": 4, "steps": [{"at_s": 1}, {"at_s": 0}]}', 'each after the one before'),
        ('{"lasts_s": 1, "steps": [{"at_s": 2}]}', 'lasts_s of a schedule is 1.0'),
        ('{"lasts_s": 4, "steps": [{"at_s": -1}]}', 'at_s of a step is -1'),
        ('{"lasts_s": 4, "steps": 3}', 'expected "lasts_s" and "steps"'),
    ],
)
def test_files_that_are_no_schedule_are_refused_in_one_line(tmp_path, text, message):
    file = tmp_path / 'schedule.json'
    file.write_text(text)
    with pytest.raises(JsonFileError, match=message):
        Schedule.load(file)


@settings(max_examples=60, deadline=None)
@example(shape='steps', seed=50, core=0, memory=2, lasts_s=1.0)  # a step that rounds to the end
@given(
    shape=st.sampled_from(SHAPES),
    seed=st.integers(0, 99),
    core=st.integers(0, 8),
    memory=st.integers(1, 4),
    lasts_s=st.floats(1.0, 100.0),
)
def test_made_schedules_repeat_and_stay_within_their_units(shape, seed, core, memory, lasts_s):
    most = {'core': core, 'memory': memory}
    schedule = make_schedule(shape, most=most, lasts_s=lasts_s, seed=seed)
    assert schedule == make_schedule(shape, most=most, lasts_s=lasts_s, seed=seed)
    assert all(schedule.most.get(kind, 0) <= count for kind, count in most.items())
    assert any(step.units for step in schedule.steps) and schedule.steps[0].units == {}


def test_shapes_differ_as_they_are_called():
    most, counts = {'core': 4}, {}
    for shape in ('steps', 'bursts', 'ramps'):
        steps = make_schedule(shape, most=most, lasts_s=60.0, seed=3).steps
        counts[shape] = [step.units.get('core', 0) for step in steps]
    assert set(counts['steps']) == {0, 1, 2, 3, 4}
    assert all((count == 0) == (place % 2 == 0) for place, count in enumerate(counts['bursts']))
    assert all(
        abs(after - before) == 1 for before, after in zip(counts['ramps'], counts['ramps'][1:])
    )


def test_playing_sets_the_units_of_the_time_and_ends_them(monkeypatch):
    schedule = Schedule((Step(0.0, {'core': 1}), Step(0.05, {'core': 2}), Step(0.1)), lasts_s=0.15)
    seen, set_units = [], ContentionLoad.set

    def note(load, units):
        set_units(load, units)
        seen.append(load.working)

    monkeypatch.setattr(ContentionLoad, 'set', note)
    with play(schedule) as load:
        wait(lambda: len(seen) == 4, 'the end of the schedule')
        pids = load.pids
    assert seen == [{'core': 1}, {'core': 2}, {}, {}]
    assert not any(os.path.exists(f'/proc/{pid}') for pid in pids)


def test_a_unit_that_dies_is_told():
    faults = []
    with play(
        Schedule((Step(0.0, {'core': 1}), Step(0.2)), lasts_s=0.4),
        repeats=True,
        failed=faults.append,
    ) as load:
        os.kill(load.pids[0], signal.SIGKILL)
        wait(lambda: faults, 'the fault')
    assert 'ended by itself' in str(faults[0])


def test_each_step_once_holds_distinct_units_those_of_fewer_first():
    schedule = Schedule(
        (Step(0.0, {'core': 2}), Step(1.0), Step(2.0, {'core': 1}), Step(3.0, {'core': 2})),
        lasts_s=4.0,
    )
    once = schedule.each_once(8.0)
    assert once == Schedule(
        (Step(0.0), Step(8.0, {'core': 1}), Step(16.0, {'core': 2})), lasts_s=24.0
    )
    with pytest.raises(ValueError, match='steps of a schedule begin at'):
        schedule.each_once(0.0)
