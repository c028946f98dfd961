import os
from pathlib import Path

import pytest

from deadline_perception.core.device import DeviceFacts
from deadline_perception.engines import segment_store
from deadline_perception.engines.segment_store import (
    FORMAT,
    Form,
    SegmentStore,
    StoreError,
    store_origin,
)
from deadline_perception.extras.preparation.store_writer import StoreWriter

ORIGIN = {'device': 'Board', 'CPU capability': 'AVX2', 'OpenVINO version': '1'}
FIGURES = {'error_db': 31.04, 'time_ms': 1.5, 'eager_ms': 3.0}


def filled(folder):
    store = StoreWriter.resume(folder, ORIGIN)
    store.add('stage1@w1.00', Form.INT8, compiled=b'compiled', **FIGURES)
    store.add('rpn@f1.00', Form.EAGER, reason='8 bit 3 dB', **FIGURES)
    store.finish(['stage1@w1.00', 'rpn@f1.00', 'pre'])
    return store


def test_what_was_added_is_there_again(tmp_path):
    kept = filled(tmp_path / 'a')
    store = SegmentStore.load(tmp_path / 'a', ORIGIN)
    store.check()
    assert store.segments == kept.segments
    assert store.segments['stage1@w1.00'].error_db == 31.0
    assert store.compiled('stage1@w1.00') == b'compiled'
    assert store.segments['rpn@f1.00'].form is Form.EAGER
    assert len(os.listdir(tmp_path / 'a')) == 2
    store.check(['stage1@w1.00', 'pre'])  # the latter is computed without an engine
    with pytest.raises(StoreError, match='was not finished'):
        store.check(['stage1@w1.00', 'stage1@w0.50'])
    (tmp_path / 'a').rename(tmp_path / 'b')
    with pytest.raises(StoreError, match="network is 'a' there and 'b' here"):
        SegmentStore.load(tmp_path / 'b', ORIGIN)


@pytest.mark.parametrize('damage', [lambda blob: blob.write_bytes(b'comp'), Path.unlink])
def test_a_damaged_segment_is_recognised_and_made_again(tmp_path, damage):
    filled(tmp_path)
    (blob,) = tmp_path.glob('*.blob')
    damage(blob)
    with pytest.raises(StoreError, match='1 prepared segments in .* damaged, such as stage1@w1'):
        SegmentStore.load(tmp_path, ORIGIN).check()
    store = StoreWriter.resume(tmp_path, ORIGIN)
    assert (list(store.segments), store.done) == (['rpn@f1.00'], set())


@pytest.mark.parametrize(
    'change',
    [
        lambda text: text[: len(text) // 2],
        lambda text: '{}',
        lambda text: text.replace(f'"format": {FORMAT}', '"format": 1'),
        lambda text: text.replace('"8 bit"', '"4 bit"'),
        lambda text: text.replace('"done"', '"done": "pre", "other"'),
        lambda text: text.replace('.blob', '.blob/../../x'),
    ],
)
def test_a_damaged_list_is_refused_in_one_line_and_begun_anew(tmp_path, change):
    filled(tmp_path)
    file = tmp_path / 'segments.json'
    file.write_text(change(file.read_text()))
    with pytest.raises(StoreError, match='cannot be used: '):
        SegmentStore.load(tmp_path, ORIGIN)
    assert StoreWriter.resume(tmp_path, ORIGIN).segments == {} and not list(tmp_path.glob('*.blob'))


def test_the_origin_names_versions_and_an_absent_library_is_told_with_the_command(monkeypatch):
    facts = DeviceFacts('Board', 'cpu', 4, 1, cpu_capability='AVX2')
    pytest.importorskip('openvino')
    origin = store_origin(facts)
    assert (origin['device'], origin['CPU capability']) == ('Board', 'AVX2')
    assert origin['OpenVINO version'] and origin['NNCF version']
    libraries = {'OpenVINO': 'openvino', 'NNCF': 'no-such-package'}
    monkeypatch.setattr(segment_store, 'LIBRARIES', libraries)
    assert store_origin(facts)['NNCF version'] == 'none'  # models may lie beside the weights
    monkeypatch.setattr(segment_store, 'LIBRARIES', {'OpenVINO': 'no-such-package'})
    with pytest.raises(StoreError, match='OpenVINO is not installed: pip install'):
        store_origin(facts)
