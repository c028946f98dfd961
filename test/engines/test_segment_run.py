from __future__ import annotations

import numpy as np
import pytest
from invented_networks import MAGNIFIER, InventedNetwork, make_magnifier, make_single

from deadline_perception.core.execution_path import SKIP, Operator, PathSpace, Segment
from deadline_perception.engines.segment_store import StoreError
from deadline_perception.extras.evaluation.path_accuracy import forked

IMAGE = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
SKIPPING = PathSpace(
    (Operator('extra', SKIP, ('skip', 'run'), 's'),),
    (Segment('start', 'all'), Segment('extra', 'all', 'extra'), Segment('end', 'all')),
)


def test_a_frame_passes_every_segment_and_tells_its_time():
    path = MAGNIFIER.parse('znear-n4')
    run = make_magnifier().start(IMAGE, path)
    with_time = []
    while not run.finished:
        assert run.segment == len(with_time)
        with_time.append(run.run_segment())
    assert run.keys == list(MAGNIFIER.keys(path)) == ['focus@znear', 'look@znear-n4', 'name']
    assert min(with_time) > 0.0 and len(run.result()) == 1
    with pytest.raises(ValueError, match='the frame has passed its last segment'):
        run.run_segment()


def test_a_skipped_segment_is_passed_and_computes_nothing():
    for name, keys in (('srun', ['start', 'extra', 'end']), ('sskip', ['start', 'end'])):
        run = InventedNetwork(SKIPPING).start(IMAGE, SKIPPING.parse(name))
        run.finish()
        assert (run.keys, run.segment) == (keys, 3)


def test_plan_may_change_until_its_segment_begins():
    run = make_magnifier().start(IMAGE, MAGNIFIER.smallest)
    run.redirect(MAGNIFIER.parse('ztele-n1'))
    run.run_segment()
    run.redirect(MAGNIFIER.largest)
    run.run_segment()
    assert run.keys == ['focus@ztele', 'look@ztele-n4'] and run.path == MAGNIFIER.largest
    for too_late in ('ztele-n1', 'zfar-n4'):
        with pytest.raises(
            ValueError, match=f'path {too_late} contradicts ztele-n4 before segment 2'
        ):
            run.redirect(MAGNIFIER.parse(too_late))
    assert run.path == MAGNIFIER.largest


def test_a_fork_goes_its_own_way():
    run = make_magnifier().start(IMAGE, MAGNIFIER.smallest)
    run.run_segment()
    branch = forked(run)
    branch.redirect(MAGNIFIER.parse('zfar-n4'))
    branch.run_segment()
    assert (run.path, run.segment, branch.segment) == (MAGNIFIER.smallest, 1, 2)


def test_foreign_path_is_refused():
    with pytest.raises(
        ValueError, match='path whole is none of the network, whose largest is ztele-n4'
    ):
        make_magnifier().start(IMAGE, make_single().path_space.largest)
    with pytest.raises(ValueError, match='path whole contradicts zfar-n1'):
        make_magnifier().start(IMAGE, MAGNIFIER.smallest).redirect(make_single().path_space.largest)


def test_a_network_that_derives_has_all_that_is_asked_of_one():
    network = make_magnifier()
    assert (network.kept_paths, network.quantises) == (None, True)
    assert network.example(IMAGE) is IMAGE
    assert len(network.detect(IMAGE)) == len(network.detect(IMAGE, MAGNIFIER.smallest)) == 1
    for use, said in (
        (network.use_float16, 'float16, which invented does not compute in'),
        (network.use_graphs, 'CUDA graphs, which invented does not run as'),
    ):
        with pytest.raises(StoreError, match=said):
            use()
