"""What happens when a process that prepares segments ends; tools/test_profile.py runs the real one."""
from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from deadline_perception.engine.segment_store import SegmentStore
from deadline_perception.tools.segment_preparation import PreparationFailed, prepare_segments, run_until_done

ORIGIN = {'device': 'Board'}
# Dies as it tries 8 bit for a segment, and goes on without where that has happened.
CRASHES = """
import os, signal, sys
from pathlib import Path
from deadline_perception.engine.segment_store import Form, SegmentStore
store = SegmentStore.resume(Path(sys.argv[1]), {'device': 'Board'})
if store.begin('stage2@w1.00', Form.INT8):
    os.kill(os.getpid(), signal.SIGSEGV)
store.finish()
"""


def test_a_process_that_a_signal_ends_is_followed_by_one_that_leaves_out_what_ended_it(tmp_path):
    run_until_done([sys.executable, '-c', CRASHES, str(tmp_path)])
    store = SegmentStore.load(tmp_path, ORIGIN)
    assert (store.failed, store.complete) == (['stage2@w1.00 8 bit'], True)


@pytest.mark.parametrize(('program', 'status'), [('raise SystemExit(3)', 3),
                                                 ('import os; os.kill(os.getpid(), 9)', -9)])
def test_a_process_that_fails_always_is_told_with_the_way_to_go_on(program, status):
    with pytest.raises(PreparationFailed, match=f'could not be prepared .status {status}.; the engine eager'):
        run_until_done([sys.executable, '-c', program])


def test_nothing_is_run_where_all_is_ready(prepared, monkeypatch):
    from deadline_perception.latency.device import read_device_facts

    monkeypatch.setattr(subprocess, 'run', None)
    network, facts = prepared.network(), read_device_facts('cpu')
    prepare_segments(prepared.weights, network, [], facts)
    shutil.rmtree(prepared.folder)
    with pytest.raises(ValueError, match='0 images to prepare segments with'):
        prepare_segments(prepared.weights, network, [], facts)
