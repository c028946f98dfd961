"""What a recorded run showed: summary.json for programs, and report.html for people.

The page needs no network and no explanation by its author.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from deadline_perception.core.replaced_file import replace_file
from deadline_perception.extras.data import records
from deadline_perception.extras.data.class_names import counted
from deadline_perception.extras.report import charts
from deadline_perception.extras.report.causes import worst_frames
from deadline_perception.extras.report.fixed_paths import FixedPaths
from deadline_perception.extras.report.gallery import (
    SHOWN_SCORE,
    Picture,
    frame_pictures,
    gallery,
)
from deadline_perception.extras.report.over_time import (
    cursor_data,
    drawn_over_time,
    run_over_time,
    shared_scales,
)
from deadline_perception.extras.report.recording import FrameRecord, Recording
from deadline_perception.extras.report.scales import times_s
from deadline_perception.extras.report.summary import (
    classes_option,
    path_uses,
    summarise,
    unscored_words,
)
from deadline_perception.extras.report.verdict import frames_judged, numbers, verdict, waste

MOST_PATHS = 14
_BESIDE_NOTE = (
    'What the moving choice of a path is worth here, by the qualities that it counts with: an estimate, in which a fixed '
    'path has its quality on the frames whose time its median fits, and none on the others.'
)


def write_report(
    recording: Recording,
    out: Path,
    *,
    source: records.Sequence | None = None,
    facts: dict[str, str] | None = None,
    notes: Sequence[str] = (),
    fixed: FixedPaths | None = None,
) -> dict:
    """Writes `summary.json` and `report.html` into a folder; returns the content of the summary.

    Args:
        recording: the run.
        out: folder, made when absent.
        source: the images that were played; without them the page has no pictures and says so.
        facts: what is known of the machine, label to value.
        notes: sentences that a reader must know, such as what of the source was dropped.
        fixed: what fixed paths were measured to find in time; None: where it can be, that is estimated.
    """
    facts = facts or {}
    notes = [*notes, *filter(None, [recording.ending, recording.class_map])]
    pictures: list[Picture] = []
    by_stamp: dict[int, str] = {}
    if source is None:
        notes.append('The images were not at hand, so no pictures are shown.')
    else:
        pictures, by_stamp = gallery(recording, source), frame_pictures(recording, source)
        if not pictures:
            notes.append(
                f'The images of {source.name} could not be matched with the stamps of the recording, '
                f'so no pictures are shown.'
            )
    summary = summarise(recording, facts)
    summary['fixed_paths'] = None if fixed is None else asdict(fixed)
    if recording.unknown_objects:
        notes.append(
            'Not scored, because the network does not know their class: '
            f'{counted(recording.unknown_objects)}; `{classes_option(summary)}` brings names together.'
        )
    replace_file(out / 'summary.json', json.dumps(summary, indent=2, allow_nan=False) + '\n')
    page = report_page(recording, summary, pictures, facts, notes, by_stamp, fixed)
    replace_file(out / 'report.html', page)
    return summary


def report_page(
    recording: Recording,
    summary: dict,
    pictures: Sequence[Picture],
    facts: dict[str, str],
    notes: Sequence[str],
    by_stamp: Mapping[int, str],
    fixed: FixedPaths | None = None,
) -> str:
    """The whole page.

    Args:
        recording, facts, notes, fixed: as of `write_report`.
        summary: of `summarise`.
        pictures: for the gallery.
        by_stamp: pictures of single frames, for clicks on charts.
    """

    def seconds(frame: FrameRecord) -> float:
        return float(times_s(recording, [frame.stamp_ns])[0])

    run = run_over_time(recording, by_stamp)
    scales = shared_scales([run])
    lasts_s = (recording.sent_stamps_ns[-1] - recording.sent_stamps_ns[0]) / 1e9
    level, sentence = verdict(summary)
    return render(
        'report.html.j2',
        title='Detections before a moving deadline',
        name=recording.name,
        subtitle=f'{summary["frames_sent"]} camera images in {lasts_s:.0f} s, on {summary["device"] or "?"}',
        level=level,
        sentence=sentence,
        waste=waste(summary),
        fixed=fixed and _fixed(fixed),
        fixed_verdict=fixed and _fixed_verdict(fixed),
        fixed_note=fixed and _fixed_note(fixed, summary),
        beside=_beside(summary),
        beside_note=_BESIDE_NOTE,
        numbers=numbers(summary),
        sent=summary['frames_sent'],
        accounting=_accounting(summary),
        accounting_note=_accounting_note(summary),
        **drawn_over_time(run, scales),
        bounds_note=_bounds_note(summary),
        bound_histogram=charts.bound_histogram(recording, scales),
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
        facts=[(label.replace('_', ' '), str(value)) for label, value in facts.items()],
        notes=notes,
        pictured=bool(by_stamp),
        cursor=cursor_data([run], scales),
    )


def render(template: str, **values: object) -> str:
    """A page made of a template of this folder; texts are escaped unless it marks them as markup."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(values)


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
            str(use.cut_short),
            f'{use.network_p50_ms:.1f}',
            f'{use.network_max_ms:.1f}',
            f'{use.bound_p50_ms:.1f}',
            _share(use.quality),
            str(use.misses),
        ]
        for use in path_uses(recording)[:MOST_PATHS]
    ]


def _paths_note(recording: Recording) -> str:
    uses = path_uses(recording)
    more = f' {len(uses) - MOST_PATHS} more were used less often.' if len(uses) > MOST_PATHS else ''
    unfinished = len(recording.frames) - sum(use.frames for use in uses)
    if unfinished:
        they = (
            'frame no path ran to its end; it is'
            if unfinished == 1
            else 'frames no path ran to its end; they are'
        )
        more += f' On {unfinished} {they} not listed.'
    return (
        "A path is named by the settings of its operators, in short. Times are the network's, in ms, of frames that were "
        'not cut short, that is, answered before all passes of the path had ended; where all were, of these. The expected '
        'quality is what the decision counted with: average precision where it was measured for these weights, '
        f'else an estimate that grows with the time.{more}'
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


def _fixed(fixed: FixedPaths) -> list[list[str]]:
    rows = []
    for row in fixed.rows:
        low, high = (
            f'{100 * end:+.1f}'.replace('-', '\N{MINUS SIGN}') for end in row.less_than_run
        )
        difference = f'{low} to {high}' if row.path else ''
        named = [row.label, row.path]
        if row.path and row.with_first_look:  # below the row of the path without it
            named = ['… or its first look, where it is late', '']
        rows.append([*named, f'{100 * row.in_time:.0f} %', _share(row.ap50), difference])
    return rows


def _fixed_verdict(fixed: FixedPaths) -> str:
    run, *others = fixed.rows
    # Beyond chance: 0 lies outside the interval.
    better = [row for row in others if row.less_than_run[1] < 0]
    best = max(better or others, key=lambda row: row.ap50)
    more = ', or its first look where it is late' if best.with_first_look else ''
    name = f'{best.path} ({best.label}{more})'
    if better:
        return f'{name} for every frame would have found more than the run did'
    if all(row.less_than_run[0] > 0 for row in others):
        return f'A path chosen for each frame found more than any of these paths, of which {name} is the best'
    return f'The run and the best of these paths, {name}, differ by no more than chance on {fixed.images} images'


def _fixed_note(fixed: FixedPaths, summary: dict) -> str:
    return (
        f'Measured: after the run {fixed.images} of its {summary["frames_delivered"]} images, at even steps, were given '
        f'to the network again, with one path for all. An answer counts if its time, multiplied by {fixed.time_ratio:.2f} '
        f'as frames took that much of it in the run, fits what the frame had left for the network then; stalls that '
        f'the run met are in none of these times, which favours the fixed paths. An image without '
        f'an answer in time counts as if nothing had been found, also in the run, and only these images count: so '
        f'the AP50 of the run is not the one above. The last column, the run less the path, '
        f'holds 95 of 100 draws of these images.'
    )


def _share(value: float | None) -> str:
    return '–' if value is None else f'{100 * value:.1f}'
