"""The closing table names the figures, also those that are not known."""
from __future__ import annotations

from pathlib import Path

import pytest
from recorded_run import SECOND_NS, RunWriter, write_drive

from deadline_perception.evaluation.recorded_bag import read_recording
from deadline_perception.evaluation.summary import summarise
from deadline_perception.tools.closing_table import print_closing_table


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setenv('COLUMNS', '160')


def test_shows_the_account_of_frames_and_where_the_report_lies(tmp_path, capsys):
    write_drive(tmp_path / 'run', frames=40)
    print_closing_table(summarise(read_recording(tmp_path / 'run'), {}), Path('out/report.html'))
    shown = capsys.readouterr().out
    assert '39 delivered, 1 replaced by a newer one, 0 lost' in shown
    assert shown.rstrip().endswith('Report: out/report.html')


def test_a_run_without_truth_and_stamps_has_dashes_instead_of_figures(tmp_path, capsys):
    with RunWriter(tmp_path / 'run') as run:
        run.latency(0, total_ms=float('nan'), feasible=False)
        run.camera(SECOND_NS)
    print_closing_table(summarise(read_recording(tmp_path / 'run'), {}), Path('report.html'))
    shown = capsys.readouterr().out
    assert 'no ground truth' in shown and 'latency' not in shown
