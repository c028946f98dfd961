import json
import os
import resource
import signal
import threading
import time
from types import SimpleNamespace

import pytest
from python_run import run_python
from waiting import WAIT_S

from deadline_perception.system import priority as module
from deadline_perception.system.kernel_thread import name_thread, thread_name
from deadline_perception.system.priority import (
    NICENESS,
    REAL_TIME_PART,
    RealTimeShare,
    Role,
    ThreadPriority,
    read_real_time_share,
)
from deadline_perception.tools.support.inference_thread import inference_thread

as_root = pytest.mark.skipif(
    not (os.geteuid() == 0 and read_real_time_share().refusal == ''),
    reason='needs every permission, to have and to give away',
)
SHARE = RealTimeShare(0.95, 1.0)
NO_NICE, NO_FIFO = 'nice -15 is not permitted', 'SCHED_FIFO 10 is not permitted'
# Runs in a process of its own, of ordinary niceness; what it calls `report` with is the test's.
CHILD = """
import json, os, resource, subprocess, sys, threading, time
from pathlib import Path
from deadline_perception.system import priority as module
from deadline_perception.system.kernel_thread import name_thread
from deadline_perception.system.priority import RealTimeShare, Role, ThreadPriority
from deadline_perception.tools.support.environment_checks import what_is_permitted
def report(**facts): print(json.dumps(facts), flush=True)
def policy(tid=0): return os.sched_getscheduler(tid) & ~os.SCHED_RESET_ON_FORK
def drop(**limits):
    try:
        for name in ('NICE', 'RTPRIO', 'MEMLOCK'):
            resource.setrlimit(getattr(resource, f'RLIMIT_{name}'), (limits.get(name, 0),) * 2)
    except ValueError:
        sys.exit(77)
    os.setgid(65534)
    os.setuid(65534)
def raised(role=Role.INFERENCE, **how):
    priority = ThreadPriority(**how)
    priority.raise_thread(role)
    return priority
def standing(): return [policy(), os.getpriority(os.PRIO_PROCESS, 0)]
os.setpriority(os.PRIO_PROCESS, 0, 0)
"""


def in_child(code: str, status: int = 0) -> dict:
    """What a process reports that runs the code."""
    run = run_python('-c', CHILD + code, start_new_session=True)
    if run.returncode == 77:
        pytest.skip('not even root may raise limits here')
    assert run.returncode == status, run.stderr
    return json.loads(run.stdout) if run.stdout else {}


def in_thread(call) -> object:
    """What a call gives on a new thread of ordinary niceness."""
    found = []

    def work() -> None:
        if os.geteuid() == 0:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 0)
        found.append(call())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(WAIT_S)
    return found[0]


def standing() -> tuple[int, int, int]:
    """Policy, priority and niceness of this thread."""
    tid = threading.get_native_id()
    policy = os.sched_getscheduler(tid) & ~os.SCHED_RESET_ON_FORK
    niceness = os.getpriority(os.PRIO_PROCESS, tid)
    return policy, os.sched_getparam(tid).sched_priority, niceness


def raise_this(share: RealTimeShare, role: Role = Role.INFERENCE) -> ThreadPriority:
    """This thread's priority, which it has."""
    priority = ThreadPriority(lock_memory=False, share=share)
    priority.raise_thread(role)
    return priority


@as_root
@pytest.mark.parametrize(
    ('role', 'share', 'raised'),
    [
        (Role.INFERENCE, SHARE, (os.SCHED_FIFO, 10, NICENESS)),
        (Role.WATCHDOG, SHARE, (os.SCHED_FIFO, 11, NICENESS)),
        (Role.SUPPORTING, SHARE, (os.SCHED_OTHER, 0, NICENESS)),
        (Role.INFERENCE, RealTimeShare(refusal='no throttle'), (os.SCHED_OTHER, 0, NICENESS)),
    ],
)
def test_a_thread_is_raised_alone_and_lowered_again(role, share, raised):
    def work():
        before, priority = standing(), raise_this(share, role)
        other = threading.Thread(target=lambda: others.append(standing()))
        others, during, told = [], standing(), (priority.in_force, priority.refusals)
        other.start()
        other.join(WAIT_S)
        priority.restore()
        return before, others[0], during, told, standing()

    before, other, during, (in_force, refusals), after = in_thread(work)
    assert before == after == other == (os.SCHED_OTHER, 0, 0)
    assert during == raised
    is_real_time = raised[0] == os.SCHED_FIFO
    assert f'nice {NICENESS}' in in_force and ('SCHED_FIFO' in in_force) == is_real_time
    assert (share.refusal in refusals) == bool(share.refusal)


@pytest.mark.slow
@as_root
def test_threads_of_openmp_are_raised_with_the_one_that_started_them():
    pytest.importorskip('torch')
    found = in_child("""
import torch
torch.set_num_threads(2)
name_thread('inference')
matrix = torch.rand(800, 800)
matrix @ matrix
elsewhere = threading.Thread(target=time.sleep, args=(1.0,))  # Python's: raises itself, or stays as it is
elsewhere.start()
priority = raised(lock_memory=False)
named = [int(task.name) for task in Path('/proc/self/task').iterdir() if (task / 'comm').read_text() == 'inference\\n']
report(named=len(named), fifo=sum(policy(tid) == os.SCHED_FIFO for tid in named), python=policy(elsewhere.native_id))
""")
    assert found['named'] >= 3
    assert found['fifo'] == found['named'] - 1
    assert found['python'] == os.SCHED_OTHER


@as_root
@pytest.mark.parametrize(
    ('limits', 'in_force', 'refused'),
    [
        ('', 'SCHED_OTHER, nice 0', (NO_NICE, NO_FIFO, 'locked memory')),
        ('NICE=40', 'SCHED_OTHER, nice -15', (NO_FIFO, 'locked memory')),
        ('RTPRIO=10', 'SCHED_FIFO 10, nice 0', (NO_NICE, 'locked memory')),
        ('NICE=40, RTPRIO=10, MEMLOCK=-1', 'SCHED_FIFO 10, nice -15', ()),
    ],
)
def test_takes_what_an_ordinary_user_is_permitted_and_tells_the_rest(limits, in_force, refused):
    found = in_child(f"""
drop({limits})
priority = raised()
told = priority.in_force, priority.refusals
priority.raise_thread(Role.INFERENCE)
priority.restore()
report(told=told, doctor=what_is_permitted(), after=standing())
""")
    for told, reasons in (found['told'], found['doctor']):
        assert told.startswith(in_force)
        assert told.endswith('memory locked') == (not refused)
        assert len(reasons) == len(refused)
        assert all(any(words in reason for reason in reasons) for words in refused)
    assert found['after'] == [os.SCHED_OTHER, 0]


@as_root
@pytest.mark.parametrize(
    'before',
    ['setpriority(os.PRIO_PROCESS, 0, 5)', 'sched_setscheduler(0, os.SCHED_RR, os.sched_param(3))'],
)
def test_what_the_process_was_started_with_stays(before):
    found = in_child(f"""
os.{before}
before = standing()
priority = raised(lock_memory=False)
priority.between_frames()
during = standing()
priority.restore()
report(before=before, during=during, after=standing(), why=priority.refusals)
""")
    assert found['before'] == found['during'] == found['after']
    assert 'was chosen when this process was started' in found['why'][0]


@as_root
def test_keeps_to_its_share_of_a_period_and_begins_the_next_one_raised(monkeypatch):
    def work():
        clock = SimpleNamespace(now_s=time.monotonic(), worked_s=time.thread_time())
        priority = raise_this(RealTimeShare(0.08, 0.2))
        faked = SimpleNamespace(
            monotonic=lambda: clock.now_s, thread_time=lambda: clock.worked_s, sleep=lambda s: None
        )
        monkeypatch.setattr(module, 'time', faked)
        seen = []
        for _ in range(50):  # frames of 10 ms
            clock.now_s += 0.01
            clock.worked_s += 0.01
            priority.between_frames()
            seen.append(standing()[0] == os.SCHED_FIFO)
        monkeypatch.undo()
        priority.restore()
        return seen

    seen = in_thread(work)
    changes = [fifo for before, fifo in zip(seen, seen[1:]) if fifo != before]
    assert changes == [False, True, False, True, False]
    # Stepped down as one more frame of 10 ms could exceed the part.
    assert seen.index(False) == int(REAL_TIME_PART * 0.08 / 0.01) - 1


@as_root
def test_a_thread_that_hangs_loses_its_priority_until_its_next_frame():
    def work():
        priority = raise_this(RealTimeShare(0.95, 0.01))
        other = threading.Thread(target=priority.step_down)
        other.start()
        other.join(WAIT_S)
        hanging = standing()
        time.sleep(0.02)
        priority.between_frames()
        again = standing()
        priority.restore()
        return hanging, again

    assert in_thread(work) == ((os.SCHED_OTHER, 0, NICENESS), (os.SCHED_FIFO, 10, NICENESS))


@as_root
def test_a_thread_that_holds_the_interpreter_is_ended_by_the_kernel():
    in_child(
        """
module.LONGEST_RUN_S = 1
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
priority = raised(lock_memory=False)
sum(range(10**12))
""",
        status=-signal.SIGXCPU,
    )


@as_root
def test_limit_of_run_and_lock_of_memory_are_given_back_and_a_short_limit_is_no_place_for_it():
    found = in_child("""
def locked(): return next(line.split()[1] for line in Path('/proc/self/status').open() if line.startswith('VmLck'))
priority = raised()
during = [resource.getrlimit(resource.RLIMIT_RTTIME)[0], locked() != '0', priority.in_force]
priority.restore()
after = [resource.getrlimit(resource.RLIMIT_RTTIME)[0], locked() != '0']
resource.setrlimit(resource.RLIMIT_RTTIME, (200_000, 200_000))
priority = raised(lock_memory=False)
report(during=during, after=after, policy=policy(), why=priority.refusals)
""")
    assert found['during'][:2] == [10_000_000, True]
    assert found['during'][2].endswith('memory locked')
    assert found['after'] == [resource.RLIM_INFINITY, False]
    assert found['policy'] == os.SCHED_OTHER
    said = 'RLIMIT_RTTIME is 200000 us, expected at least 10000000 us or no limit'
    assert found['why'] == [f'SCHED_FIFO is not used: {said}']


@pytest.mark.parametrize(
    ('runtime', 'period', 'refusal'),
    [
        ('950000\n', '1000000\n', ''),
        ('1000000\n', '1000000\n', 'sched_rt_runtime_us is 1000000, expected'),
        ('0', '1000000', 'is 0, expected'),
        ('much', '1000000', 'cannot be read'),
        (None, None, 'cannot be read'),
    ],
)
def test_real_time_needs_a_throttle(tmp_path, runtime, period, refusal):
    folder = tmp_path / 'proc/sys/kernel'
    folder.mkdir(parents=True)
    if runtime is not None:
        (folder / 'sched_rt_runtime_us').write_text(runtime)
        (folder / 'sched_rt_period_us').write_text(period)
    share = read_real_time_share(tmp_path)
    assert refusal in share.refusal and bool(refusal) == bool(share.refusal)
    if not refusal:
        assert (share.runtime_s, share.period_s) == (0.95, 1.0)


def state() -> tuple:
    tid = threading.get_native_id()
    return thread_name(tid), *standing(), os.sched_getaffinity(tid)


@pytest.mark.parametrize('mode', ['auto', 'off'])
def test_a_thread_that_ran_a_network_is_what_it_was_also_when_that_failed(mode):
    core = min(os.sched_getaffinity(0))

    def work():
        name_thread('ordinary')
        before, during = state(), []
        raised = pytest.raises(RuntimeError, match='in the midst')
        with raised, inference_thread(mode, cores={core}) as priority:
            priority.raise_thread(Role.INFERENCE)
            during += state()
            raise RuntimeError('in the midst')
        return before, during, state()

    before, during, after = in_thread(work)
    assert before == after and before[0] == 'ordinary'
    assert during[0] == 'inference' and during[-1] == {core}
    with pytest.raises(ValueError, match="priority is 'most'"), inference_thread('most'):
        pass
