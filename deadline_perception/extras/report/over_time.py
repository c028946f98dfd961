"""What of a run is drawn over time, and what the page's script shows of the frame under its time cursor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from deadline_perception.extras.report import charts
from deadline_perception.extras.report.recording import FrameRecord, Recording
from deadline_perception.extras.report.scales import Scales, drawn_frames, scales_of, times_s
from deadline_perception.runtime.job import Outcome

_OUTCOME_WORDS = {Outcome.DETECTED: 'detected', Outcome.COASTED: 'coasted', Outcome.LATE: 'late'}

_DRAWN = ('timeline', 'thinned', 'lanes', 'lane_levels', 'phases', 'phase_legend')


@dataclass(frozen=True, eq=False)
class RunOverTime:
    """A run as its charts show it.

    Attributes:
        recording: the run.
        frames: those that are drawn, in the order of their stamps.
        pictures: `data:` addresses of annotated images, by stamp; of the others no image is kept.
    """

    recording: Recording
    frames: Sequence[FrameRecord]
    pictures: Mapping[int, str]


def run_over_time(recording: Recording, pictures: Mapping[int, str]) -> RunOverTime:
    """The run with the frames that charts draw."""
    return RunOverTime(recording, drawn_frames(recording), pictures)


def shared_scales(runs: Sequence[RunOverTime]) -> Scales:
    """Scales for the charts of all runs."""
    return scales_of([(run.recording, list(run.frames)) for run in runs])


def drawn_over_time(run: RunOverTime, scales: Scales) -> dict[str, object]:
    """Charts and their legends, as the pages take them; all are empty where no frame has a stamp."""
    frames = list(run.frames)
    if not frames:
        return dict.fromkeys(_DRAWN, '')
    return {
        'timeline': charts.timeline(run.recording, frames, scales),
        'thinned': _thinned(run.recording, frames),
        'lanes': charts.lanes(run.recording, frames, scales),
        'lane_levels': charts.lane_levels(frames),
        'phases': charts.phases(run.recording, frames, scales),
        'phase_legend': charts.phase_legend(run.recording),
    }


def cursor_data(runs: Sequence[RunOverTime], scales: Scales) -> dict[str, object]:
    """What the script needs to know, as JSON.

    Keys:
        left, right: share of a chart's width where its time axis begins and ends.
        begin, end: seconds there.
        runs: per run its frames in order, each with `t` in s, `text` as markup, and `picture` where one is kept.
    """
    return {
        'left': charts.LEFT,
        'right': charts.RIGHT,
        'begin': scales.time_s[0],
        'end': scales.time_s[1],
        'runs': [[_shown(run, frame) for frame in run.frames] for run in runs],
    }


def _shown(run: RunOverTime, frame: FrameRecord) -> dict[str, object]:
    time_s = float(times_s(run.recording, [frame.stamp_ns])[0])
    shown: dict[str, object] = {'t': round(time_s, 3), 'text': _readout(frame, time_s)}
    if frame.stamp_ns in run.pictures:
        shown['picture'] = run.pictures[frame.stamp_ns]
    return shown


def _readout(frame: FrameRecord, time_s: float) -> str:
    """Markup that the page's script shows for the frame under the pointer."""
    decision = frame.decision
    reason = f'<br>{escape(decision.reason)}' if decision and decision.reason else ''
    slow = f', slowdown {decision.slowdown:.2f}' if decision else ''
    return (
        f'<b>{time_s:.1f} s</b>: allowed <b>{frame.budget_ms:.0f} ms</b>, took <b>{frame.total_ms:.0f} ms</b> '
        f'(network {frame.network_ms:.0f}, promised at most {frame.bound_ms:.0f}){slow}, '
        f'{_OUTCOME_WORDS[frame.outcome]}{"" if frame.in_time else ", <b>missed</b>"}, '
        f'path <code>{escape(frame.path)}</code>{reason}'
    )


def _thinned(recording: Recording, frames: Sequence[FrameRecord]) -> str:
    if len(frames) >= len(recording.frames):
        return ''
    return (
        f' Of {len(recording.frames)} frames the {len(frames)} worst of equal stretches are drawn.'
    )
