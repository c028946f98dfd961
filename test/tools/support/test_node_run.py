"""The nodes run as one child process that never outlives the command, and whose failure is told."""

import socket

import pytest
from waiting import wait

from deadline_perception.tools.support import node_run
from deadline_perception.tools.support.node_run import NodeRunError, run_nodes


@pytest.fixture
def start_up(tmp_path, monkeypatch):
    """Replaces the nodes' start-up by a module of the test's own."""

    def write(code: str) -> None:
        (tmp_path / 'stand_in_start_up.py').write_text(code)
        monkeypatch.setattr(node_run, 'BRINGUP', ('stand_in_start_up',))
        monkeypatch.setenv('PYTHONPATH', str(tmp_path))

    return write


def test_waits_for_the_nodes_ticks_and_keeps_their_output(start_up, tmp_path):
    start_up('import sys, time; time.sleep(0.7); print("played", *sys.argv[1:])')
    ticks = []
    run_nodes(['--bag', 'x.mcap'], tmp_path / 'nodes.log', limit_s=30.0, tick=ticks.append)
    assert ticks and (tmp_path / 'nodes.log').read_text() == 'played --bag x.mcap\n'


@pytest.mark.parametrize('given', [None, '7'])
def test_nodes_have_an_own_domain_unless_one_is_given(start_up, tmp_path, monkeypatch, given):
    monkeypatch.setenv('ROS_AUTOMATIC_DISCOVERY_RANGE', 'SUBNET')  # is restored with the domain
    monkeypatch.setenv('ROS_DOMAIN_ID', given or '0')
    if given is None:
        monkeypatch.delenv('ROS_DOMAIN_ID')
    start_up('import os; print(os.environ["ROS_DOMAIN_ID"])')
    run_nodes([], tmp_path / 'nodes.log', limit_s=30.0, tick=lambda passed_s: None)
    domain = int((tmp_path / 'nodes.log').read_text())
    assert domain == 7 if given else 1 <= domain <= 101


def test_a_domain_that_is_in_use_is_not_taken(monkeypatch):
    first = node_run.free_domain()
    others = [domain for domain in range(1, 102) if domain != first]  # tests beside have some
    monkeypatch.setattr('random.SystemRandom.sample', lambda *_: [first, *others])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(('', 7400 + 250 * first))
        assert node_run.free_domain() in others


def test_a_failure_names_the_log_and_shows_its_end(start_up, tmp_path):
    start_up('print("no such profile"); raise SystemExit(3)')
    with pytest.raises(NodeRunError, match=r'status 3; their log .*nodes\.log ends with:\n'):
        run_nodes([], tmp_path / 'nodes.log', limit_s=30.0, tick=lambda passed_s: None)


def test_nodes_that_hang_are_asked_to_end(start_up, tmp_path):
    start_up(
        'import signal, sys, time\ntry:\n    print("up", flush=True)\n    time.sleep(600)\n'
        'except KeyboardInterrupt:\n    print("asked to end", flush=True)\n'
    )
    log = tmp_path / 'nodes.log'

    def until_up(passed_s):
        wait(lambda: 'up' in log.read_text(), 'the nodes')

    with pytest.raises(NodeRunError, match='did not end within'):
        run_nodes([], log, limit_s=0.1, tick=until_up)
    assert 'asked to end' in log.read_text()
