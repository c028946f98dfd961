"""Fixed paths are held against the run by real answers: what was in time of them, in the run's own budgets."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from invented_networks import MAGNIFIER, make_magnifier
from made_up_labels import known
from plain_images import grey
from recorded_run import SECOND_NS, START_NS, RunWriter

from deadline_perception.core.detections import Detections
from deadline_perception.extras.data.records import Frame, Sequence
from deadline_perception.extras.report import fixed_paths
from deadline_perception.extras.report.fixed_paths import (
    FixedPaths,
    InTime,
    compared,
    measure_fixed_paths,
    results_of,
    time_left_ms,
)
from deadline_perception.extras.report.recorded_bag import read_recording
from deadline_perception.extras.report.report import report_page
from deadline_perception.extras.report.summary import summarise

FAST, MIDDLE, SLOW = (MAGNIFIER.parse(name) for name in ('zfar-n1', 'znear-n1', 'ztele-n4'))
BOX = [16.0, 12.0, 32.0, 24.0]  # where an invented network finds something in 64x48 px
FOUND = Detections(np.array([BOX]), np.array([0.9]), np.array([0]))
NOTHING = Detections.none()


@pytest.fixture
def run(tmp_path):
    """Sixteen images with one object, found in each; 90 ms are left to the network for every other one, else 30."""
    with RunWriter(tmp_path / 'run') as bag:
        bag.label_info(START_NS, ('thing',))
        for index in range(16):
            stamp_ns = START_NS + index * SECOND_NS // 10
            times = {'network_ms': 40.0, 'total_ms': 50.0, 'path': str(MIDDLE)}
            bag.latency(stamp_ns, budget_ms=(40.0, 100.0)[index % 2], deadline_met=True, **times)
            bag.boxes('/detector/detections', stamp_ns, [(BOX, 'thing', 0.9)])
            bag.boxes('/ground_truth', stamp_ns, [(BOX, 'thing', 1.0)])
    return read_recording(tmp_path / 'run')


def in_run(run, **results) -> dict[str, InTime]:
    """Rows by label, of paths with the same results for every image."""
    paths = {FAST: 'fast', MIDDLE: 'middle', SLOW: 'slow'}
    found = {path: results[label] for path, label in paths.items() if label in results}
    paths = {path: paths[path] for path in found}
    rows = compared(run, run.frames, [found] * len(run.frames), paths, ('thing',)).rows
    return {row.label + ' first' * (row.with_first_look and bool(row.path)): row for row in rows}


def test_an_answer_counts_where_its_time_fits_what_the_frame_had_left(run):
    assert [time_left_ms(frame) for frame in run.frames[:2]] == [30.0, 90.0]
    rows = in_run(run, fast=[(5.0, NOTHING)], slow=[(60.0, FOUND)])
    own = rows['this run, a path for each frame']
    assert (own.in_time, own.ap50, own.less_than_run) == (1.0, pytest.approx(1.0), (0.0, 0.0))
    assert (rows['fast'].in_time, rows['fast'].ap50) == (1.0, 0.0)
    # found in every other image: half of the recall, at full precision
    assert (rows['slow'].in_time, rows['slow'].ap50) == (0.5, pytest.approx(51 / 101))
    assert rows['slow'].less_than_run[0] > 0.1 and rows['fast'].less_than_run == (1.0, 1.0)
    # A path of several looks counts alone and with its first one.
    rows = in_run(run, slow=[(20.0, FOUND), (60.0, NOTHING)])
    with_first = rows['slow first']
    assert (rows['slow'].in_time, rows['slow'].ap50) == (0.5, 0.0)
    assert (with_first.in_time, with_first.ap50) == (1.0, pytest.approx(51 / 101))


def test_images_are_looked_at_again_within_the_time_for_it(run, monkeypatch):
    frames = [
        Frame(str(at), frame.stamp_ns, lambda: grey(48, 64, 90), ground_truth=known([*BOX, 0, 0]))
        for at, frame in enumerate(run.frames)
    ]
    source, network, done = Sequence('images', ('thing',), tuple(frames)), make_magnifier(), []
    clock_ms = itertools.count(0.0, 10.0)  # two readings for each of two paths, and one after them
    monkeypatch.setattr(fixed_paths, 'now_ms', lambda: next(clock_ms))
    monkeypatch.setattr(fixed_paths, 'MOST_MS', 4 * 50.0)
    measured = measure_fixed_paths(
        run,
        source,
        network,
        {FAST: 'fastest', SLOW: 'longest'},
        lambda *counts: done.append(counts),
    )
    assert measured.images == 4 and done[-1] == (4, 4) and measured.time_ratio == 1.0
    assert [row.path for row in measured.rows] == ['', str(FAST), str(SLOW)]
    assert measured.rows[1].ap50 == pytest.approx(1.0)
    foreign = Sequence('others', (), tuple(frames[:5]))
    assert measure_fixed_paths(run, foreign, network, {FAST: 'fastest'}) is None
    run.ground_truth.clear()
    run.ground_truth.update({frame.stamp_ns: known([*BOX, 0, 1]) for frame in run.frames})
    assert measure_fixed_paths(run, source, network, {FAST: 'fastest'}) is None  # crowds alone
    ((time_ms, found),) = results_of(network, grey(48, 64, 90), FAST)
    assert time_ms > 0 and found.boxes_xyxy_px.tolist() == [BOX]


@pytest.mark.parametrize(
    'interval, words',
    [
        ((0.02, 0.1), 'found more than any of these paths, of which zfar-n1 (fastest) is'),
        ((-0.1, -0.02), 'zfar-n1 (fastest) for every frame would have found more than the run'),
        ((-0.02, 0.1), 'differ by no more than chance on 80 images'),
    ],
)
def test_page_says_who_found_more_and_that_it_was_measured(run, no_charts, interval, words):
    own = InTime('this run', '', True, 1.0, 0.5, (0.0, 0.0))
    first = InTime('fastest', 'zfar-n1', True, 0.95, 0.44, (0.01, 0.1))
    fixed = FixedPaths(
        (own, InTime('fastest', 'zfar-n1', False, 0.9, 0.45, interval), first), 80, 1.1
    )
    page = report_page(run, summarise(run, {}), (), {}, (), {}, fixed)
    # one that is ahead by chance hides none that is ahead beyond it
    lucky = InTime('longest', 'ztele-n4', False, 0.9, 0.6, (-0.3, 0.01))
    with_lucky = replace(fixed, rows=(*fixed.rows, lucky))
    other = report_page(run, summarise(run, {}), (), {}, (), {}, with_lucky)
    assert ('would have found more' in other) == (interval == (-0.1, -0.02))
    assert words in page and 'Measured: after the run 80 of its 16' in page
    assert ('\N{MINUS SIGN}2.0 to' in page) == (interval == (-0.02, 0.1))
    assert page.count('>zfar-n1</code>') == 1 and 'or its first look' in page
    assert '90 %' in page and '95 %' in page
