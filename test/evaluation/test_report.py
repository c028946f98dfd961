"""The report's two files: complete, in one step, and honest about missing pictures."""
from __future__ import annotations

import json

import numpy as np
from recorded_run import NAMES, SECOND_NS, RunWriter, write_drive

from deadline_perception.datasets.records import Frame, Sequence
from deadline_perception.evaluation.gallery import PICTURES
from deadline_perception.evaluation.recorded_bag import read_recording
from deadline_perception.evaluation.report import write_report

START_NS = 1_700_000_000 * SECOND_NS


def images(count: int, step_ns: int = SECOND_NS // 10) -> Sequence:
    frames = [Frame(str(index), index * step_ns, lambda: np.full((380, 640, 3), 90, np.uint8))
              for index in range(count)]
    return Sequence('plain', NAMES, tuple(frames))


def test_writes_summary_and_page_and_leaves_nothing_else(tmp_path):
    write_drive(tmp_path / 'run', frames=60)
    summary = write_report(read_recording(tmp_path / 'run'), tmp_path / 'out', source=images(60))
    assert json.loads((tmp_path / 'out' / 'summary.json').read_text()) == summary
    assert (tmp_path / 'out' / 'report.html').read_text().count('data:image/jpeg') == PICTURES
    assert sorted(file.name for file in (tmp_path / 'out').iterdir()) == ['report.html', 'summary.json']


def test_page_says_why_it_has_no_pictures(tmp_path):
    with RunWriter(tmp_path / 'run') as run:
        run.latency(START_NS)
        run.latency(START_NS + SECOND_NS)
    recording = read_recording(tmp_path / 'run')
    write_report(recording, tmp_path / 'without')
    assert 'images were not at hand' in (tmp_path / 'without' / 'report.html').read_text()
    write_report(recording, tmp_path / 'foreign', source=images(7))
    assert 'could not be matched' in (tmp_path / 'foreign' / 'report.html').read_text()
