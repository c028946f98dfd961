"""The report of several networks, from a bag as the nodes record it."""

import base64
import json
import re

import cv2
import numpy as np
import pytest
from recorded_run import SECOND_NS, RunWriter

from deadline_perception.extras.report.recorded_bag import RecordingError
from deadline_perception.extras.report.task_report import (
    read_jobs,
    summarise_jobs,
    write_task_report,
)

MS = 1_000_000


def write_jobs(bag, jobs):
    """A recording of jobs: task, release, start and finish in ms, level, planned level, outcome."""
    with RunWriter(bag, namespace='/robot') as run:
        run.camera(SECOND_NS)
        for task, release_ms, start_ms, finish_ms, level, planned, outcome in jobs:
            times_ms = (release_ms, release_ms + 100, start_ms, finish_ms)
            names = ('release_ns', 'deadline_ns', 'started_ns', 'finished_ns')
            job = run.message(
                'deadline_perception/msg/JobReport',
                header=run.header(SECOND_NS),
                task=task,
                path='p',
                outcome=outcome,
                planned_level=planned,
                level=level,
                bound_ms=30.0,
                **{name: 5 * SECOND_NS + time_ms * MS for name, time_ms in zip(names, times_ms)},
            )
            run.write('/qos_scheduler/jobs', job, SECOND_NS + finish_ms * MS)


JOBS = [
    ('front', 0, 0, 20, 2, 1, 0),
    ('rear', 5, 20, 40, 0, 0, 0),
    ('front', 100, 100, 150, 1, 1, 2),
    ('front', 200, 200, 230, 0, 1, 0),
]


def test_figures_of_each_task_with_a_timeline_and_the_notes(tmp_path):
    write_jobs(tmp_path / 'run', JOBS)
    (front, rear), ending = read_jobs(tmp_path / 'run')
    assert ending == ''
    assert (front.task, rear.task) == ('front', 'rear')
    assert np.allclose(front.started_ms, [0, 100, 200]) and np.allclose(rear.release_ms, [5])
    found = summarise_jobs((front, rear))
    expected = {'jobs': 3, 'missed': 1, 'raised': 1 / 3, 'mean_level': 1.0}
    expected |= {'mean_period_ms': 100.0, 'share': 100.0 / 230.0}
    assert {name: found['front'][name] for name in expected} == pytest.approx(expected)
    assert found['rear']['mean_time_ms'] == pytest.approx(20.0)
    summary = write_task_report(tmp_path / 'run', tmp_path / 'out', ['a <note>'])
    assert json.loads((tmp_path / 'out/summary.json').read_text())['tasks'] == summary
    page = (tmp_path / 'out/report.html').read_text()
    assert 'a &lt;note&gt;' in page and '<td>rear</td>' in page
    picture = base64.b64decode(re.search(r'base64,([^"]+)"', page)[1])
    pixels = cv2.imdecode(np.frombuffer(picture, np.uint8), cv2.IMREAD_COLOR)
    red = (pixels[..., 2] > 180) & (pixels[..., :2] < 60).all(-1)
    assert red.sum() > 50, 'the job that missed'


def test_a_recording_without_jobs_is_refused(tmp_path):
    write_jobs(tmp_path / 'run', [])
    with pytest.raises(RecordingError, match='holds no deadline_perception/msg/JobReport'):
        read_jobs(tmp_path / 'run')
