"""What a recorded run showed: summary.json for programs, and report.html for people.

The page needs no network and no explanation by its author.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

from deadline_perception.core import records
from deadline_perception.core.errors import command_line
from deadline_perception.core.replaced_file import replace_file
from deadline_perception.extras.data.class_names import counted
from deadline_perception.extras.report import charts
from deadline_perception.extras.report.causes import worst_frames
from deadline_perception.extras.report.gallery import SHOWN_SCORE, Picture, gallery
from deadline_perception.extras.report.recording import FrameRecord, Recording
from deadline_perception.extras.report.summary import path_uses, summarise, unscored_words
from deadline_perception.runtime.job import Outcome

ACCEPTED_MISS_RATIO = 0.02  # on an idle machine
_MOST_PATHS = 14
_LOOSE_BOUNDS = 2.5  # times what the network took, median
_MOST_SMALLER = 0.1  # share of frames that ran a smaller network than would have fitted
_BESIDE_NOTE = (
    'What the moving choice of a path is worth here, by the qualities that it counts with: an estimate, in which a fixed '
    'path has its quality on the frames whose time its median fits, and none on the others.'
)
_OUTCOME_WORDS = {Outcome.DETECTED: 'detected', Outcome.COASTED: 'coasted', Outcome.LATE: 'late'}


def write_report(
    recording: Recording,
    out: Path,
    *,
    source: records.Sequence | None = None,
    facts: dict[str, str] | None = None,
    notes: Sequence[str] = (),
) -> dict:
    """Writes `summary.json` and `report.html` into a folder; returns the content of the summary.

    Args:
        recording: the run.
        out: folder, made when absent.
        source: the images that were played; without them the page has no pictures and says so.
        facts: what is known of the machine, label to value.
        notes: sentences that a reader must know, such as what of the source was dropped.
    """
    facts = facts or {}
    notes = [*notes, *filter(None, [recording.ending, recording.class_map])]
    pictures: list[Picture] = []
    if source is None:
        notes.append('The images were not at hand, so no pictures are shown.')
    else:
        pictures = gallery(recording, source)
        if not pictures:
            notes.append(
                f'The images of {source.name} could not be matched with the stamps of the recording, '
                f'so no pictures are shown.'
            )
    if recording.unknown_objects:
        notes.append(
            'Not scored, because the network does not know their class: '
            f'{counted(recording.unknown_objects)}.'
        )
    summary = summarise(recording, facts)
    replace_file(out / 'summary.json', json.dumps(summary, indent=2, allow_nan=False) + '\n')
    replace_file(out / 'report.html', report_page(recording, summary, pictures, facts, notes))
    return summary


def report_page(
    recording: Recording,
    summary: dict,
    pictures: Sequence[Picture],
    facts: dict[str, str],
    notes: Sequence[str],
) -> str:
    """The whole page; arguments as of `write_report`, with the summary of `summarise` and pictures for the gallery."""

    def seconds(frame: FrameRecord) -> float:
        return float(charts.times_s(recording, [frame.stamp_ns])[0])

    frames = charts.drawn_frames(recording)
    begin_s, end_s = charts.time_range_s(
        charts.times_s(recording, [frame.stamp_ns for frame in frames])
    )
    lasts_s = (recording.sent_stamps_ns[-1] - recording.sent_stamps_ns[0]) / 1e9
    level, sentence = verdict(summary)
    over_time = (
        {'timeline': ''}
        if not frames
        else {
            'timeline': charts.timeline(recording, list(frames)),
            'thinned': _thinned(recording, frames),
            'lanes': charts.lanes(recording, list(frames)),
            'lane_levels': charts.lane_levels(list(frames)),
            'phases': charts.phases(recording, list(frames)),
            'phase_legend': charts.phase_legend(recording),
        }
    )
    return render(
        title='Detections before a moving deadline',
        name=recording.name,
        subtitle=f'{summary["frames_sent"]} camera images in {lasts_s:.0f} s, on {summary["device"] or "?"}',
        level=level,
        sentence=sentence,
        waste=waste(summary),
        beside=_beside(summary),
        beside_note=_BESIDE_NOTE,
        numbers=numbers(summary),
        sent=summary['frames_sent'],
        accounting=_accounting(summary),
        accounting_note=_accounting_note(summary),
        **over_time,
        bounds_note=_bounds_note(summary),
        bound_histogram=charts.bound_histogram(recording),
        quality=_quality(summary),
        quality_note=_quality_note(summary),
        paths=_paths(recording),
        path_words=path_words(recording),
        paths_note=_paths_note(recording),
        worst=[
            (seconds(blame.frame), blame)
            for blame in worst_frames(recording)
            if summary['deadline_misses']
        ],
        pictures=[(seconds(picture.frame), picture) for picture in pictures],
        shown_score=SHOWN_SCORE,
        coasted=Outcome.COASTED.value,
        facts=[(label.replace('_', ' '), str(value)) for label, value in facts.items()],
        notes=notes,
        frames={
            'left': charts.LEFT,
            'right': charts.RIGHT,
            'begin': begin_s,
            'end': end_s,
            'frames': [
                {'t': round(seconds(frame), 3), 'text': _readout(frame, seconds(frame))}
                for frame in frames
            ],
        },
    )


def render(**values: object) -> str:
    """A page made of `report.html.j2`: texts are escaped unless it marks them as markup, no value may be missing."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template('report.html.j2').render(values)


def _accounting(summary: dict) -> list[tuple[str, int, str]]:
    """What became of images: words, how many, colour."""
    in_time = frames_judged(summary) - summary['deadline_misses']
    return [
        ('delivered in time', in_time, 'good'),
        ('delivered, not in time', summary['deadline_misses'], 'miss'),
        ('delivered, age unknown', summary['frames_age_unknown'], 'level2'),
        ('replaced by a newer image', summary['frames_replaced'], 'level1'),
        ('lost', summary['frames_lost'], 'infeasible'),
    ]


def _accounting_note(summary: dict) -> str:
    lost = ''
    if summary['frames_lost']:
        lost = (
            f' Of the lost ones {summary["frames_rejected"]} could not be used by the detector and '
            f'{summary["frames_lost_by_middleware"]} were reported lost by the middleware.'
        )
    return (
        f'The camera sent {summary["frames_sent"]} images. The detector always takes the newest one; an image that '
        f'a newer one overtakes is replaced, not queued, so results are never stale.{lost}'
    )


def _thinned(recording: Recording, frames: Sequence[FrameRecord]) -> str:
    if len(frames) >= len(recording.frames):
        return ''
    return (
        f' Of {len(recording.frames)} frames the {len(frames)} worst of equal stretches are drawn.'
    )


def _bounds_note(summary: dict) -> str:
    ratio, worst_ms = summary['latency_over_bound']['p50'], summary['wcet_ms']['p50']
    worst = (
        ''
        if worst_ms is None
        else (
            f' The analytical worst case (WCET) was {worst_ms:.1f} ms in the median, and '
            f'{summary["wcet_exceeded"]} frames took longer than theirs.'
        )
    )
    return (
        f'{summary["bound_exceeded"]} of {summary["frames_delivered"]} frames took longer than promised (right of '
        f'1). The median frame used {"?" if ratio is None else f"{100 * ratio:.0f} %"} of its bound; the closer to '
        f'1 without crossing it, the less time is wasted. Frames that were aborted within their bound are not '
        f'drawn.{worst}'
    )


def _quality(summary: dict) -> list[list[str]]:
    """A row per class and their mean; none without ground truth."""
    if summary['ap50'] is None:
        return []
    rows = [
        [name, str(scores['ground_truths']), _share(scores['ap50']), _share(scores['ap'])]
        for name, scores in summary['ap_per_class'].items()
        if scores['ground_truths']
    ]
    return [*rows, ['mean over classes', '', _share(summary['ap50']), _share(summary['ap'])]]


def _quality_note(summary: dict) -> str:
    if summary['ap50'] is None:
        return f'Accuracy was not scored: {unscored_words(summary)}.'
    return (
        f'Average precision over {summary["frames_scored"]} images, 0 to 100. Every image sent counts: one that '
        f'was replaced, lost or late is scored with the detections delivered last before it, as a follower of the '
        f'detections would have seen it.'
    )


def _paths(recording: Recording) -> list[list[str]]:
    return [
        [
            use.path,
            str(use.frames),
            f'{100 * use.frames / len(recording.frames):.1f} %',
            f'{use.network_p50_ms:.1f}',
            f'{use.network_max_ms:.1f}',
            f'{use.bound_p50_ms:.1f}',
            _share(use.quality),
            str(use.misses),
        ]
        for use in path_uses(recording)[:_MOST_PATHS]
    ]


def _paths_note(recording: Recording) -> str:
    uses = path_uses(recording)
    more = (
        f' {len(uses) - _MOST_PATHS} paths more were used less often.'
        if len(uses) > _MOST_PATHS
        else ''
    )
    unfinished = len(recording.frames) - sum(use.frames for use in uses)
    if unfinished:
        more += f' On {unfinished} frames no path ran to its end; they are not listed.'
    return (
        "A path is named by the settings of its operators, in short. Times are the network's, in ms. The expected "
        'quality is what the decision counted with: average precision where it was measured for these weights, '
        f'else an estimate that grows with the time.{more}'
    )


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


def _share(value: float | None) -> str:
    return '–' if value is None else f'{100 * value:.1f}'


def waste(summary: dict) -> str:
    """What makes frames worse than they need be, and the remedy, as markup; empty where bounds are tight enough."""
    ratio, smaller = summary['bound_over_network'], summary['smaller_frames']
    delivered = summary['frames_delivered']
    if ratio is None or not (ratio > _LOOSE_BOUNDS or smaller > _MOST_SMALLER * delivered):
        return ''
    lost = 100 * summary['smaller_quality']
    cost = f' (about {lost:.0f} points of expected AP)' if lost >= 1.0 else ''
    smaller_words = (
        f': {smaller} of {delivered} frames ran a smaller network than would have fitted{cost}'
        if smaller
        else ''
    )
    return (
        f'<b>Bounds are {ratio:.1f} times what frames took</b>{smaller_words}. Times were measured on a busy machine, or '
        f'too few of them: measure again while nothing else runs, <code>{escape(command_line("profile"))}</code>.'
    )


def path_words(recording: Recording) -> dict[str, str]:
    """Name of a path -> what its operators were set to, of those that ran."""
    words: dict[str, str] = {}
    for frame in recording.frames:
        if frame.path in words or frame.decision is None:
            continue
        by_kind: dict[str, list[str]] = {}
        for operator in frame.decision.operators:
            by_kind.setdefault(operator.kind, []).append(operator.setting)
        words[frame.path] = ', '.join(
            f'{kind} {"/".join(dict.fromkeys(settings)) if len(set(settings)) == 1 else "/".join(settings)}'
            for kind, settings in by_kind.items()
        )
    return words


def _beside(summary: dict) -> list[list[str]]:
    return [
        [row['label'], row['path'], f'{100 * row["in_time"]:.0f} %', _share(row['quality'])]
        for row in summary['beside_fixed_paths']
    ]


def verdict(summary: dict) -> tuple[str, str]:
    """How the run of a summary went, `good`, `fair` or `bad`, and one sentence that says so.

    It is fair when frames that a bound fitted were kept, but too many others were missed; and bad when even those were
    not, or images were lost.
    """
    judged = frames_judged(summary)
    in_time = judged - summary['deadline_misses']
    ratio = summary['feasible_miss_ratio']
    sentence = f'<b>{in_time} of {judged} delivered frames came in time.</b> '
    if summary['frames_age_unknown']:
        sentence += (
            f'{summary["frames_age_unknown"]} further ones had no valid stamp, so nobody knows how old they '
            f'were. '
        )
    if not judged:
        return 'bad', sentence + 'Without a stamp no deadline can be judged.'
    if ratio is None:
        return (
            'bad',
            sentence + 'The time allowed was too short for even the cheapest path on every frame.',
        )
    sentence += f'Where the bound of some path fitted, {_percent(ratio)} of {summary["feasible_frames"]} frames missed'
    held_up = summary['held_up_frames']
    unpromised = judged - summary['feasible_frames'] - held_up
    if unpromised:
        sentence += (
            f'; on {unpromised} no bound fitted, and '
            f'{summary["deadline_misses"] - summary["feasible_misses"] - held_up} of those missed'
        )
    if held_up:
        sentence += f'; {held_up} waited for the frame before until their deadline'
    sentence += f'. {summary["frames_lost"] or "No"} image{"s were" if summary["frames_lost"] > 1 else " was"} lost.'
    if max(ratio, held_up / judged) >= ACCEPTED_MISS_RATIO or summary['frames_lost']:
        return 'bad', sentence
    return 'good' if summary['deadline_miss_ratio'] < ACCEPTED_MISS_RATIO else 'fair', sentence


def numbers(summary: dict) -> list[tuple[str, str, str]]:
    """Label, value and plain words of each number at the top."""
    latency, overhead, decision = (
        summary['latency_ms'],
        summary['overhead_ms'],
        summary['decision_us'],
    )
    return [
        (
            'Missed although possible',
            _percent(summary['feasible_miss_ratio']),
            f'{summary["feasible_misses"]} of {summary["feasible_frames"]} frames that the bound of some path fitted. The '
            f'true rate is below {_percent(summary["feasible_miss_upper_95"])} with 95 % confidence.',
        ),
        (
            'No promise possible',
            _percent(summary['infeasible_ratio']),
            f"Frames whose time was too short for even the cheapest path's bound. {_lucky(summary)} of these "
            f'{_infeasible(summary)} were in time all the same. All misses together: '
            f'{_percent(summary["deadline_miss_ratio"])}.',
        ),
        (
            'Accuracy (AP50)',
            '–' if summary['ap50'] is None else f'{100 * summary["ap50"]:.1f}',
            f'Not scored: {unscored_words(summary)}.'
            if summary['ap50'] is None
            else 'Out of 100, over every image sent, including those for which only older detections were there.',
        ),
        (
            'Latency',
            f'{_rounded(latency["p50"])} ms',
            f'Median from image to detections; 99 % took at most '
            f'{_rounded(latency["p99"])} ms, the longest {_rounded(latency["max"])} ms.',
        ),
        (
            'Paths used',
            str(summary['distinct_paths']),
            f'Different ways through the network; it changed {summary["path_switches"]} times from one frame to the next, '
            f'and re-planned {summary["replanned_frames"]} frames while they ran.',
        ),
        (
            'Cost of deciding',
            f'{_rounded(decision["p50"])} µs',
            f'Median of one decision (99 %: '
            f'{_rounded(decision["p99"])} µs). All of the node outside the network: {_rounded(overhead["p50"])} ms.',
        ),
    ]


def frames_judged(summary: dict) -> int:
    """Delivered frames of known age: those that met or missed their deadline."""
    return summary['frames_delivered'] - summary['frames_age_unknown']


def _lucky(summary: dict) -> int:
    """Infeasible frames that came in time."""
    return _infeasible(summary) - (
        summary['deadline_misses'] - summary['feasible_misses'] - summary['held_up_frames']
    )


def _infeasible(summary: dict) -> int:
    return frames_judged(summary) - summary['feasible_frames'] - summary['held_up_frames']


def _percent(share: float | None) -> str:
    if share is None:
        return '–'
    return f'{100 * share:.1f} %' if share == 0 or share >= 0.001 else f'{100 * share:.2g} %'


def _rounded(value: float | None) -> str:
    if value is None:
        return '–'
    return f'{value:.0f}' if value >= 20 else f'{value:.1f}'
