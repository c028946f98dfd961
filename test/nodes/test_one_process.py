"""All nodes in one process, on a short bag that is played to them and recorded."""
from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from made_up_network import write_network

from deadline_perception.datasets.bag import write_bag
from deadline_perception.datasets.rendering.drive import render_drive
from deadline_perception.evaluation.recorded_bag import read_recording
from deadline_perception.nodes.node_table import NODES

FRAMES = 12
FAILING = """
from deadline_perception.nodes import one_process
from deadline_perception.nodes.time_budget import TimeBudgetNode

def fail(self):
    raise ZeroDivisionError('made up')

TimeBudgetNode._publish = fail
raise SystemExit(one_process.main())
"""


@pytest.mark.parametrize('sim_time', [False, True], ids=['restamped', 'simulated_time'])
def test_a_bag_goes_through_all_nodes_and_no_frame_is_lost(tmp_path, sim_time):
    write_network(tmp_path)
    write_bag(render_drive(seconds=FRAMES / 5, rate_hz=5, width=160, height=96), tmp_path / 'drive.mcap')
    command = [sys.executable, '-m', 'deadline_perception.nodes', 'bringup', '--one-process', '--bag',
               str(tmp_path / 'drive.mcap'), '--record', str(tmp_path / 'recording.mcap'), '--model',
               str(tmp_path / 'good.safetensors'), '--profile', str(tmp_path / 'good.json')]
    done = subprocess.run(command + ['--use-sim-time'] * sim_time, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    recording = read_recording(tmp_path / 'recording.mcap')
    replaced = sum(frame.replaced for frame in recording.frames)
    assert len(recording.sent_stamps_ns) == FRAMES
    assert len(recording.frames) + replaced == FRAMES
    for frame in recording.frames:
        assert frame.phase_ms['age'] >= 0.0
        assert frame.detections is not None
        assert frame.decision is not None


def test_a_failing_callback_ends_the_process_with_status_1_and_the_node_s_name(start_script):
    """Whoever started it starts it again; before, the node was gone and all others went on."""
    node = start_script('one_process', FAILING)
    assert node.wait_ended() == 1
    assert 'nodes: time_budget failed, all nodes end' in node.output
    assert 'ZeroDivisionError: made up' in node.output


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_nodes(start_node, observer, wait_for, number):
    node = start_node('one_process', {'autostart': False})
    wait_for(lambda: all(observer.status(entry.name)[0] >= 0 for entry in NODES), 'all nodes')
    assert node.end(number) == 0
    assert 'Traceback' not in node.output and 'terminate called' not in node.output
