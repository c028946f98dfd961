"""Processes that prepare segments, and what happens when one ends."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from waiting import WAIT_S, wait

from deadline_perception.core.device import read_device_facts
from deadline_perception.engines.segment_store import SegmentStore, store_origin
from deadline_perception.tools.support import segment_preparation
from deadline_perception.tools.support.segment_preparation import (
    PreparationFailed,
    models_at_hand,
    prepare_segments,
    run_until_done,
)

ORIGIN = {'device': 'Board'}
# Dies as it tries 8 bit for a segment, and goes on without where that has happened.
CRASHES = """
import os, signal, sys
from pathlib import Path
from deadline_perception.engines.segment_store import Form
from deadline_perception.extras.preparation.store_writer import StoreWriter
store = StoreWriter.resume(Path(sys.argv[1]), {'device': 'Board'})
if store.begin('stage2@w1.00', Form.INT8):
    os.kill(os.getpid(), signal.SIGSEGV)
store.finish(['stage2@w1.00'])
"""


def test_a_process_that_a_signal_ends_is_followed_by_one_that_leaves_out_what_ended_it(tmp_path):
    run_until_done([sys.executable, '-c', CRASHES, str(tmp_path)])
    store = SegmentStore.load(tmp_path, ORIGIN)
    assert (store.failed, store.done) == (['stage2@w1.00 8 bit'], {'stage2@w1.00'})


@pytest.mark.parametrize(
    'program, status', [('raise SystemExit(3)', 3), ('import os; os.kill(os.getpid(), 9)', -9)]
)
def test_a_process_that_fails_always_is_told_with_the_way_to_go_on(program, status, monkeypatch):
    monkeypatch.setattr(segment_preparation, '_MOST_CRASHES', 2)
    words = f'could not be prepared .status {status}.; the engine eager'
    with pytest.raises(PreparationFailed, match=words):
        run_until_done([sys.executable, '-c', program])


@pytest.mark.slow
def test_a_process_of_its_own_prepares_what_is_asked_for(prepared, tmp_path):
    weights = Path(shutil.copy(prepared.weights, tmp_path))
    network, facts = prepared.network(), read_device_facts('cpu')
    alone = SegmentStore.load(prepared.folder, store_origin(facts))
    shutil.rmtree(prepared.folder)
    keys = {'stage1@w1.00', 'skip0@w1.00', 'stage2@w1.00', 'stage3@w1.00', 'head@h0-f1.00-p5'}
    prepare_segments(weights, network, list(prepared.images), facts, keys)
    store = SegmentStore.load(prepared.folder, store_origin(facts))
    assert store.failed == [] and store.segments.keys() == store.done == keys
    for key, segment in store.segments.items():
        # Which form is faster may depend on the moment, its error does not.
        if segment.form is alone.segments[key].form:
            assert segment.error_db == pytest.approx(alone.segments[key].error_db, abs=0.5)
    models = models_at_hand(weights, network.weights_hash)  # for the next device
    assert store.segments.keys() <= models.forms.keys()


def test_models_that_cannot_be_read_are_told_and_made_anew(tmp_path, capsys):
    (tmp_path / 'x.quantised').write_bytes(b'nothing')
    assert models_at_hand(tmp_path / 'x.safetensors', 'abc').forms == {}
    assert 'x.quantised cannot be used' in capsys.readouterr().err
    assert models_at_hand(tmp_path / 'y.safetensors', 'abc').forms == {}
    assert not capsys.readouterr().err


@pytest.mark.slow
def test_a_user_who_interrupts_costs_no_form(prepared):
    shutil.rmtree(prepared.folder)
    images = prepared.folder.parent / 'images.npy'
    np.save(images, np.stack(prepared.images))
    code = f"""
import numpy as np
from pathlib import Path
from deadline_perception.core import tied_process
from deadline_perception.core.device import read_device_facts
from deadline_perception.networks.model_reference import load_weights
from deadline_perception.tools.support.segment_preparation import prepare_segments
tied_process.PATIENCE_S = 0.0  # as where a slow compiler does not let go in time
weights = Path({str(prepared.weights)!r})
prepare_segments(weights, load_weights(weights), np.load({str(images)!r}), read_device_facts('cpu'))
"""
    run = subprocess.Popen([sys.executable, '-c', code], stderr=subprocess.DEVNULL)
    manifest = prepared.folder / 'segments.json'

    def has_begun():
        return manifest.exists() and json.loads(manifest.read_text())['attempt']

    wait(has_begun, 'the first attempt')
    run.send_signal(signal.SIGINT)
    assert run.wait(WAIT_S) == -signal.SIGINT
    left = json.loads(manifest.read_text())
    assert (left['attempt'], left['failed'], left['done']) == ('', [], [])


def test_nothing_is_run_where_all_is_ready(prepared, monkeypatch):
    monkeypatch.setattr(segment_preparation, 'start_tied', None)
    network, facts = prepared.network(), read_device_facts('cpu')
    prepare_segments(prepared.weights, network, [], facts)
    shutil.rmtree(prepared.folder)
    with pytest.raises(ValueError, match='0 images to prepare segments with'):
        prepare_segments(prepared.weights, network, [], facts)
