import re

import numpy as np
import pytest

pytest.importorskip('openvino')


from deadline_perception.core.device import read_device_facts
from deadline_perception.engines.compiled_segments import CompiledSegments
from deadline_perception.engines.eager import as_arrays
from deadline_perception.engines.segment_store import Form, SegmentStore, store_origin
from deadline_perception.extras.preparation.store_writer import StoreWriter


def engine(prepared, threads=1):
    return CompiledSegments(
        SegmentStore.load(prepared.folder, store_origin(read_device_facts('cpu'))), threads
    )


def values_of(network, image):
    run = network.start(image, network.path_space.largest)
    run.finish()
    return run._values


@pytest.mark.parametrize('threads', [1, 2])
def test_compiled_frames_agree_with_eager_ones(prepared, threads):
    network = prepared.network()
    expected = values_of(network, prepared.images[0])
    network.engine = engine(prepared, threads)
    assert '8 bit' in network.engine.forms.values()
    found = values_of(network, prepared.images[0])
    # What follows the pyramid depends on which proposals are kept.
    for name in ('stage1', 'stage2', 'stage3', 'stage4', 'pyramid'):
        for right, value in zip(as_arrays(expected[name]), found[name], strict=True):
            error = float(np.square(value - right).mean() / right.var())
            assert error < 0.05, name
            assert not np.array_equal(value, right) and value.flags.c_contiguous


def test_levels_of_one_segment_are_joined_where_they_lie_and_others_copied(prepared):
    network = prepared.network()
    network.engine = engine(prepared)
    levels = values_of(network, prepared.images[0])['pyramid']
    channels = levels[0].shape[-1]
    (rows,) = network.engine.joined(levels)
    expected = np.concatenate([level.reshape(-1, channels) for level in levels])
    np.testing.assert_array_equal(rows, expected)
    assert all(np.shares_memory(rows, level) for level in levels)
    for others in (levels[:-1], tuple(level.copy() for level in levels)):
        (copied,) = network.engine.joined(others)
        np.testing.assert_array_equal(copied, rows[: len(copied)])
        assert not np.shares_memory(copied, rows)


def test_after_weights_may_have_changed_all_is_eager_and_that_is_said(prepared):
    network = prepared.network()
    expected = network.detect(prepared.images[0], network.path_space.largest)
    network.engine = engine(prepared)
    network.load_state_dict(network.state_dict())
    found = network.detect(prepared.images[0], network.path_space.largest)
    np.testing.assert_allclose(found.boxes_xyxy_px, expected.boxes_xyxy_px, atol=1e-3)
    assert 'weights have changed' in network.engine.notice and network.engine.forms == {}


def test_a_segment_that_openvino_refuses_is_eager_and_that_is_said(prepared):
    network = prepared.network()
    store = StoreWriter.load(prepared.folder, store_origin(read_device_facts('cpu')))
    figures = {'error_db': 30.0, 'time_ms': 1.0, 'eager_ms': 2.0}
    store.add('stage2@w1.00', Form.INT8, compiled=b'of another compiler', **figures)
    network.engine = compiled = CompiledSegments(store, 1)
    network.detect(prepared.images[0], network.path_space.largest)
    # What is there as it was written stays, whoever prepares the rest.
    hint = f'such as stage2@w1.00: .* Delete {prepared.folder} and .* profile .* --threads 1$'
    assert re.search(hint, compiled.notice)
    assert 'stage2@w1.00' not in compiled.forms and 'stage1@w1.00' in compiled.forms
