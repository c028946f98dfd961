from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.functional import linear

from deadline_perception.core.device import read_device_facts
from deadline_perception.engines.segment_store import Form, SegmentStore, store_origin
from deadline_perception.extras.preparation.made_segments import SegmentMaker, TensorCall
from deadline_perception.extras.preparation.segment_check import (
    peak_to_error_db,
    signal_to_error_db,
)
from deadline_perception.extras.preparation.segment_choice import SegmentChoice
from deadline_perception.extras.preparation.segment_models import SegmentModels
from deadline_perception.extras.preparation.segments import prepare
from deadline_perception.extras.preparation.store_writer import StoreWriter

FACTS = read_device_facts('cpu')


def store_in(folder):
    return StoreWriter.resume(folder, store_origin(FACTS))


def maker_of(store):
    return SegmentMaker(SegmentChoice(store, 1), SegmentModels(''))


def test_every_segment_is_prepared_and_within_the_tolerance(prepared):
    store = SegmentStore.load(prepared.folder, store_origin(FACTS))
    keys = set(prepared.network().path_space.carriers())
    assert set(store.segments) == {key for key in keys if not key.startswith(('pre', 'post'))}
    assert store.done == keys
    for key, segment in store.segments.items():
        has_layers = not key.startswith(('proposals', 'regions'))
        assert segment.form is Form.EAGER or segment.error_db >= (20.0 if has_layers else 80.0)
        assert not has_layers or segment.form is Form.INT8 or segment.reason
        # one without layers may run eagerly because that is as fast, never because it was wrong or not converted
        assert has_layers or segment.form in (Form.EXACT, Form.EAGER) and not segment.reason
        assert segment.form is Form.EAGER or segment.time_ms < segment.eager_ms


def test_only_what_is_missing_is_prepared_again(prepared, monkeypatch):
    blob = next(prepared.folder.glob('*.blob'))
    blob.unlink()
    made = []
    monkeypatch.setattr(SegmentMaker, 'make', lambda self, key, calls: not made.append(key))
    network, engine = prepared.network(), object()
    network.engine = engine
    store = store_in(prepared.folder)
    missing = {key for key in network.path_space.carriers()} - store.segments.keys()
    prepare(network, list(prepared.images), store, 1)
    assert network.engine is engine and store.done == set(network.path_space.carriers())
    assert made and set(made) <= missing and not any(key.startswith('pre') for key in made)


def calls_of(compute, *shapes):
    rng = torch.Generator().manual_seed(0)
    found = []
    with torch.inference_mode():
        for _ in range(8):
            inputs = {'x': tuple(torch.randn(shape, generator=rng) for shape in shapes)}
            found.append(TensorCall(compute, inputs, compute(inputs)))
    return found


@pytest.mark.parametrize(
    'compute, is_traced',
    [
        (lambda x: torch.linalg.svdvals(x), True),
        (lambda x: x * 2.0 if x.sum() > -1e9 else x * 3.0, False),
    ],
)
def test_what_cannot_be_converted_or_traced_stays_eager(tmp_path, compute, is_traced):
    store = store_in(tmp_path)
    maker_of(store).make('data', calls_of(lambda values: (compute(values['x'][0]),), (8, 8)))
    segment = store.segments['data']
    assert segment.form is Form.EAGER and segment.reason
    assert ('OpConversionFailure' in segment.reason) is is_traced


def test_a_form_that_ended_the_process_before_is_left_out(tmp_path):
    weight = torch.randn(256, 256)
    store = store_in(tmp_path)
    store.begin('layer', Form.INT8)
    store = store_in(tmp_path)
    calls = calls_of(lambda values: (linear(values['x'][0], weight),), (64, 256))
    maker_of(store).make('layer', calls)
    segment = store.segments['layer']
    assert segment.form is not Form.INT8 and 'ended the process' in segment.reason


def test_errors_by_hand():
    right = np.float32([-640.0, 3.0])
    one, none = np.ones(1, np.float32), np.zeros((0, 4), np.float32)
    assert peak_to_error_db((right,), (right + np.float32(0.064),)) == pytest.approx(80.0, abs=0.01)
    assert peak_to_error_db((right, one), (right, one + 0.1)) == pytest.approx(20.0, abs=0.01)
    assert peak_to_error_db((right, none), (right, none)) == 200.0
    assert peak_to_error_db((np.array([2, 1]),), (np.array([2, 1]),)) == 200.0  # labels
    for broken in (np.float32([-640.0, np.nan]), np.float32([-640.0])):
        assert peak_to_error_db((right,), (broken,)) == -200.0
    assert peak_to_error_db((np.zeros(2),), (np.ones(2),)) == -200.0
    right = np.float32([3.0, 5.0])  # variance 1
    assert signal_to_error_db((right,), (right + 0.1,)) == pytest.approx(20.0, abs=1e-4)
    assert signal_to_error_db((right, right), (right, right + 1.0)) == pytest.approx(0.0, abs=1e-4)
    assert signal_to_error_db((right,), (right,)) == 200.0
    for broken in (np.float32([3.0, np.nan]), np.float32([3.0, np.inf]), np.float32([3.0])):
        assert signal_to_error_db((right,), (broken,)) == -200.0
    assert signal_to_error_db((np.ones(2),), (np.zeros(2),)) == -200.0


def test_a_form_that_was_tried_and_left_may_be_tried_again(tmp_path):
    """Whatever ends the process afterwards."""
    store = store_in(tmp_path / 'n-1')
    wanted = torch.randn(1, 4)
    call = TensorCall(lambda _: (wanted,), {'a': (torch.randn(1, 4),)}, (wanted,))
    choice = SegmentChoice(store, 1)
    choice.compile = lambda *_, **__: b'model'
    wrong = np.full((1, 4), 99, np.float32)
    choice.compiler = SimpleNamespace(load=lambda *_, **__: lambda arrays: (wrong,))
    forms = {'stage1': [(Form.INT8, 'm')]}
    models = SimpleNamespace(forms=forms, of=forms.get, model=lambda name: object())
    assert not SegmentMaker(choice, models).take('stage1', [call])
    again = store_in(tmp_path / 'n-1')
    assert not again.segments and again.begin('stage1', Form.INT8)
