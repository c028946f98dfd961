import os
import signal
import subprocess
import sys

import pytest
from waiting import WAIT_S, is_gone, wait

from deadline_perception.system import supervision
from deadline_perception.system.supervision import (
    TRY_AGAIN_STATUS,
    ProcessOrder,
    Supervisor,
    describe_exit,
)


def shell(name, script, **special):
    return ProcessOrder(name, ('/bin/sh', '-c', script), **special)


@pytest.fixture
def told():
    return []


@pytest.fixture
def supervisor(told, monkeypatch):
    monkeypatch.setattr(supervision, 'RESPAWN_DELAY_S', 0.01)
    supervisor = Supervisor(say=told.append)
    yield supervisor
    supervisor.stop()


def test_the_run_ends_with_its_process_and_takes_the_others_along(supervisor, told, tmp_path):
    other = supervisor.start(shell('node', 'exec sleep 60'))
    script, environment = f'echo $OMP_NUM_THREADS > {tmp_path}/said', {'OMP_NUM_THREADS': '7'}
    supervisor.start(shell('player', script, environment=environment, ends_run=True))
    assert supervisor.run() == 0
    assert told == ['stopping: player is done']
    assert is_gone(other)
    assert (tmp_path / 'said').read_text() == '7\n'


def test_a_player_that_found_nobody_is_tried_again_so_often_and_no_more(supervisor, told, tmp_path):
    script = f'echo x >> {tmp_path}/tries; exit {TRY_AGAIN_STATUS}'
    supervisor.start(shell('player', script, ends_run=True, retries=2))
    assert supervisor.run() == 1
    assert (tmp_path / 'tries').read_text() == 'x\nx\nx\n'
    assert told == 2 * ['player is tried again'] + ['stopping: player failed: exit status 75']


def test_a_node_that_dies_again_and_again_stays_down_and_its_exits_are_described(supervisor, told):
    supervisor.start(shell('detector', 'exit 1', respawn=True))
    assert supervisor.run() == 1
    assert told.count('detector died: exit status 1') == supervision.MAX_RESPAWNS + 1
    stays_down = 'detector died 6 times within 60 s: it stays down, the others go on without it'
    assert told[-2:] == [stays_down, 'stopping: no process is left']
    assert list(map(describe_exit, (2, -11, -200))) == [
        'exit status 2',
        'killed by SIGSEGV',
        'killed by signal 200',
    ]


@pytest.mark.parametrize('status', [0, 1])
def test_what_follows_starts_only_when_what_it_waits_for_ended_well(
    supervisor, told, tmp_path, status
):
    mark = tmp_path / 'mark'
    player = shell('player', f'touch {mark}', ends_run=True)
    supervisor.start(shell('readiness', f'exit {status}', then=(player,)))
    assert supervisor.run() == status
    assert mark.exists() is not bool(status)
    failed = 'readiness failed: exit status 1' if status else 'player is done'
    assert told == [f'stopping: {failed}']


def test_a_process_that_ignores_requests_is_killed(supervisor, told, tmp_path, monkeypatch):
    steps = (signal.SIGINT, 0.2), (signal.SIGTERM, 0.2), (signal.SIGKILL, 5.0)
    monkeypatch.setattr(supervision, 'STEPS', steps)
    mark = tmp_path / 'mark'
    stubborn = supervisor.start(shell('stubborn', f"trap '' INT TERM; touch {mark}; exec sleep 60"))
    wait(mark.exists)
    supervisor.stop()
    assert is_gone(stubborn)
    assert told == [f'stubborn did not end within 0 s of {name}' for name in ('SIGINT', 'SIGTERM')]


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_its_supervisor(number):
    script = (
        'from deadline_perception.system.supervision import ProcessOrder, Supervisor\n'
        'supervisor = Supervisor()\n'
        'with supervisor.catch_signals():\n'
        '    print(supervisor.start(ProcessOrder("node", ("/bin/sleep", "60"))), flush=True)\n'
        '    raise SystemExit(supervisor.run())\n'
    )
    process = subprocess.Popen([sys.executable, '-c', script], stdout=subprocess.PIPE, text=True)
    child = int(process.stdout.readline())
    try:
        process.send_signal(number)
        assert process.wait(WAIT_S) == (0 if number == signal.SIGINT else -number)
        wait(lambda: is_gone(child))
    finally:
        process.kill()
        if not is_gone(child):
            os.kill(child, signal.SIGKILL)


def test_signals_do_what_they_did_before_once_it_is_over(supervisor):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(RuntimeError), supervisor.catch_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        assert supervisor.run() == 0
        raise RuntimeError('while it is caught')
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
