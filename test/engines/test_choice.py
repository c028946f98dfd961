import pytest

from deadline_perception.core.device import read_device_facts
from deadline_perception.engines import segment_store
from deadline_perception.engines.choice import choose_engine, is_installed
from deadline_perception.engines.segment_store import StoreError

FACTS = read_device_facts('cpu')
COMMAND = r'Prepare them: .*deadline-perception profile --weights w.safetensors'


def test_without_them_auto_is_eager_and_others_are_refused(prepared, monkeypatch, tmp_path):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'empty'))
    chosen = choose_engine('auto', prepared.network(), FACTS, 'w.safetensors')
    assert chosen.identity == 'eager' and 'no segments are prepared in' in chosen.notice
    said = f'engine is openvino, but no segments are prepared .*{COMMAND}'
    with pytest.raises(StoreError, match=said):
        choose_engine('openvino', prepared.network(), FACTS, 'w.safetensors')
    with pytest.raises(ValueError, match="engine is 'tensorrt', expected one of auto, eager, op"):
        choose_engine('tensorrt', None, FACTS)
    monkeypatch.setattr(segment_store, 'LIBRARIES', {'OpenVINO': 'no-such-package'})
    assert not is_installed()
    chosen = choose_engine('auto', prepared.network(), FACTS)
    assert 'OpenVINO is not installed: pip install' in chosen.notice
