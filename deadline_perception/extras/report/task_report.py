"""What several scheduled networks did in a recorded run: a timeline of all jobs, and the figures of each task."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deadline_perception.core.replaced_file import replace_file
from deadline_perception.core.stopwatch import NS_PER_MS
from deadline_perception.extras.data.bag_file import BagFile
from deadline_perception.extras.evaluation.confidence_limit import clopper_pearson_upper
from deadline_perception.extras.report.recorded_bag import RecordingError
from deadline_perception.extras.report.report import render

_JOB = 'deadline_perception/msg/JobReport'
_DONE = 0  # JobReport.DONE
_SHOWN_MS = 3000.0  # of the timeline, from the middle of the run


@dataclass(frozen=True)
class TaskJobs:
    """The jobs of one task, in the order of their release; times in ms from the first release of the run.

    Attributes:
        task: its name.
        release_ms, deadline_ms, started_ms, finished_ms: float64 `[J]`.
        level, planned_level: int64 `[J]`.
        done: bool `[J]`, whether the result came by the deadline.
    """

    task: str
    release_ms: np.ndarray
    deadline_ms: np.ndarray
    started_ms: np.ndarray
    finished_ms: np.ndarray
    level: np.ndarray
    planned_level: np.ndarray
    done: np.ndarray


def read_jobs(recording: Path) -> tuple[tuple[TaskJobs, ...], str]:
    """The jobs of all tasks in a recording, and where it ends if it was cut off.

    Raises:
        RecordingError: it holds none.
        BagError: it cannot be read.
        FileNotFoundError: it is not there.
    """
    with closing(BagFile(recording)) as source:
        wanted = {topic.name for topic in source.topics if topic.msgtype == _JOB}
        messages = [source.parse(raw, msgtype) for _, msgtype, _, raw in source.messages(wanted)]
    if not messages:
        raise RecordingError(
            f'{recording} holds no {_JOB} message, expected a recording of qos_scheduler/jobs'
        )
    begun_ns = min(message.release_ns for message in messages)
    found = []
    for task in sorted({message.task for message in messages}):
        mine = sorted(
            (message for message in messages if message.task == task),
            key=lambda message: message.release_ns,
        )
        times = [
            np.array([getattr(message, name) - begun_ns for message in mine]) / NS_PER_MS
            for name in ('release_ns', 'deadline_ns', 'started_ns', 'finished_ns')
        ]
        found.append(
            TaskJobs(
                task,
                *times,
                np.array([message.level for message in mine]),
                np.array([message.planned_level for message in mine]),
                np.array([message.outcome == _DONE for message in mine]),
            )
        )
    return tuple(found), source.ending


def summarise_jobs(tasks: Sequence[TaskJobs]) -> dict[str, dict[str, float]]:
    """Figures of each task by its name."""
    length_ms = max(float(jobs.finished_ms.max()) for jobs in tasks)
    found = {}
    for jobs in tasks:
        took_ms, missed = jobs.finished_ms - jobs.started_ms, int((~jobs.done).sum())
        found[jobs.task] = {
            'jobs': len(jobs.done),
            'missed': missed,
            'miss_ratio_upper_95': clopper_pearson_upper(missed, len(jobs.done)),
            'mean_level': float(jobs.level.mean()),
            'raised': float((jobs.level > jobs.planned_level).mean()),
            'mean_period_ms': float((jobs.deadline_ms - jobs.release_ms).mean()),
            'mean_time_ms': float(took_ms.mean()),
            'share': float(took_ms.sum() / length_ms),
        }
    return found


def draw_timeline(tasks: Sequence[TaskJobs]) -> bytes:
    """A PNG with a row per task."""
    from matplotlib.figure import Figure

    middle_ms = max(float(jobs.finished_ms.max()) for jobs in tasks) / 2.0
    begin_ms, end_ms = max(0.0, middle_ms - _SHOWN_MS / 2.0), middle_ms + _SHOWN_MS / 2.0
    figure = Figure(figsize=(13, 0.9 + 0.7 * len(tasks)), layout='constrained')
    axes = figure.subplots()
    for place, jobs in enumerate(tasks):
        shown = np.flatnonzero((jobs.finished_ms >= begin_ms) & (jobs.started_ms <= end_ms))
        shade = 0.3 + 0.7 * jobs.level / max(1, int(jobs.level.max()))
        for at in shown.tolist():
            axes.broken_barh(
                [(jobs.started_ms[at], jobs.finished_ms[at] - jobs.started_ms[at])],
                (place - 0.35, 0.7),
                facecolor=f'C{place % 10}' if jobs.done[at] else 'tab:red',
                alpha=float(shade[at]) if jobs.done[at] else 1.0,
                edgecolor='black',
                linewidth=0.3,
            )
        axes.plot(jobs.release_ms[shown], np.full(len(shown), place - 0.42), 'k^', markersize=3)
    axes.set(
        yticks=range(len(tasks)),
        yticklabels=[jobs.task for jobs in tasks],
        xlim=(begin_ms, end_ms),
        xlabel='ms',
        ylim=(len(tasks) - 0.4, -0.6),
    )
    axes.grid(axis='x', alpha=0.3)
    file = io.BytesIO()
    figure.savefig(file, dpi=100, format='png')
    return file.getvalue()


def write_task_report(
    recording: Path, folder: Path, notes: Sequence[str] = ()
) -> dict[str, dict[str, float]]:
    """Writes report.html and summary.json of a recorded run into a folder.

    Returns:
        The figures of each task.

    Raises:
        RecordingError: the recording holds no job.
    """
    tasks, ending = read_jobs(recording)
    summary = summarise_jobs(tasks)
    rows = [
        (
            name,
            row['jobs'],
            row['missed'],
            f'{row["miss_ratio_upper_95"]:.2%}',
            f'{row["mean_level"]:.1f}',
            f'{row["raised"]:.0%}',
            f'{row["mean_period_ms"]:.0f}',
            f'{row["mean_time_ms"]:.1f}',
            f'{row["share"]:.1%}',
        )
        for name, row in summary.items()
    ]
    page = render(
        'tasks.html.j2',
        title='Several networks on one processor',
        name=recording.name,
        subtitle=f'{sum(row["jobs"] for row in summary.values())} jobs',
        tasks=rows,
        notes=[*notes, *([ending] if ending else [])],
        picture=base64.b64encode(draw_timeline(tasks)).decode(),
        cursor={'runs': []},
        timeline_note=f'{_SHOWN_MS / 1000.0:.1f} s from the middle of the run: a bar for each job, darker at '
        f'higher levels, red where it missed; marks are releases.',
    )
    replace_file(folder / 'report.html', page)
    replace_file(folder / 'summary.json', json.dumps({'tasks': summary}, indent=1) + '\n')
    return summary
