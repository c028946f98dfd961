"""The impact profiler beside real units: a real network waits for them, and they are gone afterwards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from impact import measure_unit_delays, most_units, record_delays, rungs

from deadline_perception.timing.contention.load import ContentionLoad, check_units


def test_records_until_time_is_up_or_nobody_wants_more():
    calls = []

    def run_frame():
        calls.append(len(calls))
        return 5.0 + len(calls)

    assert record_delays(run_frame, 1e-9) == [6.0]
    assert len(record_delays(run_frame, 1e9, goes_on=lambda: len(calls) < 10)) == 9
    with pytest.raises(ValueError, match='seconds is 0'):
        record_delays(run_frame, 0.0)


def test_rungs_are_spread_and_end_with_the_most():
    assert rungs(3) == [1, 2, 3] and rungs(8) == list(range(1, 9))
    assert rungs(40) == [5, 10, 15, 20, 25, 30, 35, 40]


@pytest.mark.parametrize(('cores', 'most'), [(1, 6), (64, 256)])
def test_a_machine_of_many_cores_has_no_more_units_than_a_load_may_have(monkeypatch, cores, most):
    monkeypatch.setattr(os, 'sched_getaffinity', lambda pid: set(range(cores)))
    assert check_units({'core': most_units()}) == {'core': most}


def test_units_are_measured_from_none_on_until_they_are_enough():
    seen, delays = [], iter([10.0] * 23 + [20.0] * 23 + [40.0] * 1000)
    found = measure_unit_delays(
        lambda: next(delays),
        ['core'],
        4,
        1e-9,
        up_to_ms=30.0,
        progress=lambda kind, count, most: seen.append((kind, count, most)),
    )
    expected = [({}, 10.0), ({'core': 1}, 20.0), ({'core': 2}, 40.0)]
    assert [(dict(delay.units), delay.delay_ms) for delay in found] == expected
    assert seen == [('core', 1, 4), ('core', 2, 4)]


def waited_and_ran_ns() -> tuple[int, int]:
    """How long this thread has waited for a core while it could have run, and how long it ran."""
    ran, waited, _ = Path('/proc/thread-self/schedstat').read_text().split()
    return int(waited), int(ran)


@pytest.mark.skipif(
    not Path('/proc/thread-self/schedstat').is_file(),
    reason='the kernel does not tell how threads wait',
)
def test_real_units_slow_a_real_network_and_are_gone_afterwards():
    torch = pytest.importorskip('torch')
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 32, 3)
    ).eval()
    image = torch.zeros(1, 3, 96, 96)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with (
            torch.no_grad(),
            ContentionLoad(
                {'core': 4 * len(os.sched_getaffinity(0))}, share=1.0, at_work=True
            ) as load,
        ):
            network(image)
            waited, ran = waited_and_ran_ns()
            while waited_and_ran_ns()[1] - ran < 150_000_000:
                network(image)
            waited, ran = (
                after - before for after, before in zip(waited_and_ran_ns(), (waited, ran))
            )
            pids = load.pids
    finally:
        torch.set_num_threads(threads)
    assert waited > ran  # each core has five that want it
    assert not any(Path(f'/proc/{pid}').exists() for pid in pids)
