"""What a recorded run showed: summary.json for programs, and report.html for people.

The page needs no network and no explanation by its author.
"""
from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from deadline_perception.datasets import records
from deadline_perception.datasets.class_names import counted
from deadline_perception.evaluation import charts
from deadline_perception.evaluation.causes import worst_frames
from deadline_perception.evaluation.gallery import SHOWN_SCORE, Picture, gallery
from deadline_perception.evaluation.recording import FrameRecord, Recording
from deadline_perception.evaluation.report_style import SCRIPT, STYLE
from deadline_perception.evaluation.summary import path_uses, summarise
from deadline_perception.latency.json_file import write_text_atomically
from deadline_perception.runtime.tracks import Outcome

ACCEPTED_MISS_RATIO = 0.02  # on an idle machine
_MOST_PATHS = 14
_OUTCOME_WORDS = {Outcome.DETECTED: 'detected', Outcome.COASTED: 'coasted', Outcome.LATE: 'late'}


def write_report(recording: Recording, out: Path, *, source: records.Sequence | None = None,
                 facts: dict[str, str] | None = None, notes: Sequence[str] = ()) -> dict:
    """Writes `summary.json` and `report.html` into a folder; returns the content of the summary.

    Args:
        recording: the run.
        out: folder, made when absent.
        source: the images that were played; without them the page has no pictures and says so.
        facts: what is known of the machine, label to value.
        notes: sentences that a reader must know, such as what of the source was left out.
    """
    facts = facts or {}
    notes = [*notes, *filter(None, [recording.ending])]
    pictures: list[Picture] = []
    if source is None:
        notes.append('The images were not at hand, so no pictures are shown.')
    else:
        pictures = gallery(recording, source)
        if not pictures:
            notes.append(f'The images of {source.name} could not be matched with the stamps of the recording, '
                         f'so no pictures are shown.')
    if recording.unknown_objects:
        notes.append('Not scored, because the network does not know their class: '
                     f'{counted(recording.unknown_objects)}.')
    summary = summarise(recording, facts)
    write_text_atomically(out / 'summary.json', json.dumps(summary, indent=2, allow_nan=False) + '\n')
    write_text_atomically(out / 'report.html', report_page(recording, summary, pictures, facts, notes))
    return summary


def report_page(recording: Recording, summary: dict, pictures: Sequence[Picture], facts: dict[str, str],
                notes: Sequence[str]) -> str:
    """The whole page.

    Args:
        recording: the run.
        summary: from `summarise`.
        pictures: for the gallery, may be empty.
        facts: what is known of the machine, label to value.
        notes: sentences that a reader must know.
    """
    frames = charts.drawn_frames(recording)
    first_s, last_s = (stamps[index] / 1e9 for stamps, index in ((recording.sent_stamps_ns, 0),
                                                                (recording.sent_stamps_ns, -1)))
    grade, sentence = verdict(summary)
    body = [
        f'<header><div><h1>Detections before a moving deadline</h1><div class="note">{escape(recording.name)}: '
        f'{summary["frames_sent"]} camera images in {last_s - first_s:.0f} s, on {escape(summary["device"] or "?")}'
        f'</div></div><button id="theme" type="button">Dark</button></header>',
        f'<div class="verdict {grade}">{sentence}</div>',
        '<div class="numbers">' + ''.join(
            f'<div class="number"><span class="label">{escape(label)}</span><b>{escape(value)}</b>'
            f'<span class="plain">{escape(plain)}</span></div>' for label, value, plain in numbers(summary)) + '</div>',
        _accounting(summary), *_over_time(recording, frames),
        '<div class="split">', _bounds(recording, summary), _quality(summary), '</div>',
        _paths(recording), _worst(recording), _gallery(recording, pictures), _machine(facts, notes), _words()]
    begin_s, end_s = charts.time_range_s(charts.times_s(recording, [frame.stamp_ns for frame in frames]))
    data = json.dumps({'left': charts.LEFT, 'right': charts.RIGHT, 'begin': begin_s, 'end': end_s,
                       'frames': [{'t': round(float(time_s), 3), 'text': _readout(frame, float(time_s))}
                                  for time_s, frame in zip(charts.times_s(recording, [f.stamp_ns for f in frames]),
                                                           frames)]}).replace('</', '<\\/')
    return ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<title>Detections before a moving deadline: {escape(recording.name)}</title>'
            f'<style>{STYLE}</style></head>\n<body><main>\n' + '\n'.join(body) + '\n</main>\n'
            f'<script type="application/json" id="frames">{data}</script>\n<script>{SCRIPT}</script></body></html>\n')


def _section(title: str, note: str, content: str) -> str:
    return f'<section><h2>{title}</h2><p class="note">{note}</p>{content}</section>'


def _legend(entries: Sequence[tuple[str, str]], kind: str = '') -> str:
    return f'<div class="legend">{_swatches(entries, kind)}</div>'


def _swatches(entries: Sequence[tuple[str, str]], kind: str) -> str:
    return ''.join(f'<span><i class="{kind}" style="background: var(--{colour})"></i>{escape(words)}</span>'
                   for words, colour in entries)


def _signs(entries: Sequence[tuple[str, str, str]]) -> str:
    """Sign, words and colour variable of each."""
    return ''.join(f'<span><b style="color: var(--{colour})">{sign}</b> {escape(words)}</span>'
                   for sign, words, colour in entries)


def _table(columns: Sequence[tuple[str, bool]], rows: Sequence[Sequence[str]]) -> str:
    """A table of HTML cells; each column has a title and whether it holds numbers."""
    kinds = [' class="n"' if numeric else '' for _, numeric in columns]
    head = ''.join(f'<th{kind}>{title}</th>' for (title, _), kind in zip(columns, kinds))
    body = ''.join('<tr>' + ''.join(f'<td{kind}>{cell}</td>' for cell, kind in zip(row, kinds)) + '</tr>'
                   for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _accounting(summary: dict) -> str:
    sent = summary['frames_sent']
    in_time = frames_judged(summary) - summary['deadline_misses']
    parts = (('delivered in time', in_time, 'good'), ('delivered, not in time', summary['deadline_misses'], 'miss'),
             ('delivered, age unknown', summary['frames_age_unknown'], 'level2'),
             ('replaced by a newer image', summary['frames_replaced'], 'level1'),
             ('lost', summary['frames_lost'], 'infeasible'))
    bar = ''.join(f'<div style="flex: {count}; background: var(--{colour})" title="{words}: {count}"></div>'
                  for words, count, colour in parts if count)
    lost = ''
    if summary['frames_lost']:
        lost = (f' Of the lost ones {summary["frames_rejected"]} could not be used by the detector and '
                f'{summary["frames_lost_by_middleware"]} were reported lost by the middleware.')
    return _section('Where every image went', f'The camera sent {sent} images. The detector always takes the newest '
                    f'one; an image that a newer one overtakes is replaced, not queued, so results are never stale.'
                    f'{lost}', f'<div class="flow">{bar}</div>' + _legend(
                        [(f'{words}: {count} ({100 * count / sent:.1f} %)', colour) for words, count, colour in parts]))


def _over_time(recording: Recording, frames: Sequence[FrameRecord]) -> list[str]:
    if not frames:
        return [_section('Speed, time allowed, time taken', 'No image had a valid stamp, so no latency is known and '
                         'nothing can be drawn over time.', '<div id="readout"></div>')]
    return [draw(recording, frames) for draw in (_timeline, _lanes, _phases)]


def _timeline(recording: Recording, frames: Sequence[FrameRecord]) -> str:
    lines = _legend([('budget: the time allowed', 'budget'), ('latency: image to detections', 'latency'),
                     ('bound: promised beforehand', 'bound')], 'line')
    signs = (('✖', 'late', 'miss'), ('▼', 'coasted, counted as a miss', 'coasted'))
    marks = ('<div class="legend">' + _signs(signs)
             + _swatches([('shaded: infeasible, no path\'s bound fitted', 'infeasible')], 'shade') + '</div>')
    return _section('Speed, time allowed, time taken', 'The faster the vehicle, the sooner detections are needed. The '
                    'blue line must stay below the heavy one. The bound is what the detector promised before it '
                    'started: how long the chosen path would take at most. Move the pointer over the chart to read '
                    'one frame.' + _thinned(recording, frames),
                    lines + marks + f'<div class="chart">{charts.timeline(recording, list(frames))}'
                    '<div class="cursor"></div></div><div id="readout">One frame\'s figures appear here.</div>')


def _thinned(recording: Recording, frames: Sequence[FrameRecord]) -> str:
    if len(frames) >= len(recording.frames):
        return ''
    return f' Of {len(recording.frames)} frames the {len(frames)} worst of equal stretches are drawn.'


def _lanes(recording: Recording, frames: Sequence[FrameRecord]) -> str:
    drawing = charts.lanes(recording, list(frames))
    if not drawing:
        return ''
    legend = ''.join('<div class="legend"><strong>' + escape(label) + '</strong>' + ''.join(
        f'<span><i style="background: var(--{colour})"></i>{escape(words)}</span>' for words, colour in levels)
        + '</div>' for label, levels in charts.lane_levels(list(frames)))
    under = ' Under them: the level of contention in force, 0 is the least.' if recording.level.values else ''
    return _section('What the network did to be in time', 'One lane per operator, coloured as in the legend under it, '
                    f'from as little as possible to everything computed.{under}',
                    f'<div class="chart">{drawing}<div class="cursor"></div></div>{legend}')


def _phases(recording: Recording, frames: Sequence[FrameRecord]) -> str:
    return _section('Where the time went', 'Each frame\'s latency, stacked by phase; the line is the budget. While the '
                    'budget is longer than the time between two images, images wait for the frame before them: that '
                    'time was not needed.',
                    _legend(charts.phase_legend(recording)) +
                    f'<div class="chart">{charts.phases(recording, list(frames))}<div class="cursor"></div></div>')


def _bounds(recording: Recording, summary: dict) -> str:
    ratio = summary['latency_over_bound']['p50']
    return _section('Did the bounds hold?', f'{summary["bound_exceeded"]} of {summary["frames_delivered"]} frames took '
                    f'longer than promised (right of 1). The median frame used '
                    f'{"?" if ratio is None else f"{100 * ratio:.0f} %"} of its bound; the closer to 1 without '
                    f'crossing it, the less time is wasted. Frames that were aborted within their bound are not drawn.',
                    charts.bound_histogram(recording))


def _quality(summary: dict) -> str:
    if summary['ap50'] is None:
        return _section('How good were the detections?', 'The source has no ground truth, so accuracy was not scored.',
                        '')
    rows = [[escape(name), str(scores['ground_truths']), _share(scores['ap50']), _share(scores['ap'])]
            for name, scores in summary['ap_per_class'].items() if scores['ground_truths']]
    rows.append(['<b>mean over classes</b>', '', f'<b>{_share(summary["ap50"])}</b>',
                 f'<b>{_share(summary["ap"])}</b>'])
    return _section('How good were the detections?', f'Average precision over {summary["frames_scored"]} images, 0 to '
                    '100. Every image sent counts: one that was replaced, lost or late is scored with the detections '
                    'delivered last before it, as a follower of the detections would have seen it.',
                    _table([('object', False), ('known', True), ('AP at IoU 0.5', True), ('AP 0.5 to 0.95', True)],
                           rows))


def _paths(recording: Recording) -> str:
    uses = path_uses(recording)
    rows = [[f'<code>{escape(use.path)}</code>', str(use.frames), f'{100 * use.frames / len(recording.frames):.1f} %',
             f'{use.network_p50_ms:.1f}', f'{use.network_max_ms:.1f}', f'{use.bound_p50_ms:.1f}',
             _share(use.quality), str(use.misses)] for use in uses[:_MOST_PATHS]]
    more = f' {len(uses) - _MOST_PATHS} paths more were used less often.' if len(uses) > _MOST_PATHS else ''
    unfinished = len(recording.frames) - sum(use.frames for use in uses)
    if unfinished:
        more += f' On {unfinished} frames no path ran to its end; they are not listed.'
    return _section('Paths used most', 'A path is named by the settings of its operators, in short. Times are the '
                    'network\'s, in ms. The expected quality is what the decision counted with: average precision '
                    f'where it was measured for these weights, else a stand-in that grows with the time.{more}',
                    _table([('path', False), ('frames', True), ('share', True), ('median', True), ('longest', True),
                            ('bound', True), ('expected quality', True), ('missed', True)], rows))


def _worst(recording: Recording) -> str:
    rows = []
    for blame in worst_frames(recording):
        frame = blame.frame
        time_s = charts.times_s(recording, [frame.stamp_ns])[0]
        rows.append([f'{time_s:.1f}', f'{frame.total_ms:.0f}&nbsp;of&nbsp;{frame.budget_ms:.0f}', _result(frame),
                     escape(blame.cause.value), escape(blame.sentence), f'<code>{escape(frame.path)}</code>'])
    return _section('The tightest frames, and what to blame', 'Frames that missed first, then those that came closest '
                    'to it. A frame that was coasted published the detections before it, so it missed however '
                    'early it did so.', _table([('second', True), ('ms', True), ('result', False), ('cause', False),
                                                ('why', False), ('path', False)], rows))


def _result(frame: FrameRecord) -> str:
    """What became of a frame, as a coloured tag."""
    if frame.in_time:
        return '<span class="tag good">in time</span>'
    return f'<span class="tag bad">{"coasted" if frame.outcome is Outcome.COASTED else "late"}</span>'


def _gallery(recording: Recording, pictures: Sequence[Picture]) -> str:
    if not pictures:
        return ''
    figures = ''.join(
        f'<figure><img src="{picture.data_uri}" alt="annotated frame"><figcaption>'
        f'{charts.times_s(recording, [picture.frame.stamp_ns])[0]:.1f} s: {picture.frame.total_ms:.0f} of '
        f'{picture.frame.budget_ms:.0f} ms {_result(picture.frame)}</figcaption></figure>' for picture in pictures)
    return _section('What it saw', 'Frames spread over the run, with some that missed among them. Coloured boxes are '
                    f'the published detections with a score of at least {SHOWN_SCORE}, dashed ones the known '
                    'objects. The bar is the time taken: it must end before the white mark, the budget; the yellow '
                    'mark is the bound. Below it: what the network ran.',
                    f'<div class="gallery">{figures}</div>')


def _machine(facts: dict[str, str], notes: Sequence[str]) -> str:
    listed = ''.join('<li>' + re.sub('`([^`]+)`', r'<code>\1</code>', escape(note)) + '</li>' for note in notes)
    return _section('The machine, and what to know about this run', '', _table(
        [('', False), ('', False)], [[escape(label.replace('_', ' ')), escape(str(value))]
                                     for label, value in facts.items()]) + (f'<ul>{listed}</ul>' if listed else ''))


def _words() -> str:
    return _section('Words', '', _table([('', False), ('', False)], [
        ['<b>budget</b>', 'longest time allowed from the moment an image is taken to its detections being published'],
        ['<b>latency</b>', 'the time that it did take'],
        ['<b>bound</b>', 'time that the chosen path exceeds only with a small, chosen probability'],
        ['<b>infeasible</b>', 'not even the cheapest path\'s bound fitted the time left'],
        ['<b>coasted</b>', 'the detections before were published again, moved forward; counted as a miss'],
        ['<b>slowdown</b>', 'factor by which other programs on the machine slow the detector down']]))


def _readout(frame: FrameRecord, time_s: float) -> str:
    decision = frame.decision
    reason = f'<br>{escape(decision.reason)}' if decision and decision.reason else ''
    slow = f', slowdown {decision.slowdown:.2f}' if decision else ''
    return (f'<b>{time_s:.1f} s</b>: allowed <b>{frame.budget_ms:.0f} ms</b>, took <b>{frame.total_ms:.0f} ms</b> '
            f'(network {frame.network_ms:.0f}, promised at most {frame.bound_ms:.0f}){slow}, '
            f'{_OUTCOME_WORDS[frame.outcome]}{"" if frame.in_time else ", <b>missed</b>"}, '
            f'path <code>{escape(frame.path)}</code>{reason}')


def _share(value: float | None) -> str:
    return '–' if value is None else f'{100 * value:.1f}'


def verdict(summary: dict) -> tuple[str, str]:
    """How the run went, `good`, `fair` or `bad`, and one sentence that says so.

    It is fair when frames that a bound fitted were kept, but too many others were missed; and bad when even those were
    not, or images were lost.

    Args:
        summary: from `summarise`.
    """
    judged = frames_judged(summary)
    in_time = judged - summary['deadline_misses']
    ratio = summary['feasible_miss_ratio']
    sentence = f'<b>{in_time} of {judged} delivered frames came in time.</b> '
    if summary['frames_age_unknown']:
        sentence += (f'{summary["frames_age_unknown"]} further ones had no valid stamp, so nobody knows how old they '
                     f'were. ')
    if not judged:
        return 'bad', sentence + 'Without a stamp no deadline can be judged.'
    if ratio is None:
        return 'bad', sentence + 'The time allowed was too short for even the cheapest path on every frame.'
    sentence += f'Where the bound of some path fitted, {_percent(ratio)} of {summary["feasible_frames"]} frames missed'
    unpromised = judged - summary['feasible_frames']
    if unpromised:
        sentence += (f'; on {unpromised} no bound fitted, and '
                     f'{summary["deadline_misses"] - summary["feasible_misses"]} of those missed')
    sentence += f'. {summary["frames_lost"] or "No"} image{"s were" if summary["frames_lost"] > 1 else " was"} lost.'
    if ratio >= ACCEPTED_MISS_RATIO or summary['frames_lost']:
        return 'bad', sentence
    return 'good' if summary['deadline_miss_ratio'] < ACCEPTED_MISS_RATIO else 'fair', sentence


def numbers(summary: dict) -> list[tuple[str, str, str]]:
    """Label, value and plain words of each number at the top.

    Args:
        summary: from `summarise`.
    """
    latency, overhead, decision = summary['latency_ms'], summary['overhead_ms'], summary['decision_us']
    return [
        ('Missed although possible', _percent(summary['feasible_miss_ratio']),
         f'{summary["feasible_misses"]} of {summary["feasible_frames"]} frames that the bound of some path fitted. The '
         f'true rate is below {_percent(summary["feasible_miss_upper_95"])} with 95 % confidence.'),
        ('No promise possible', _percent(summary['infeasible_ratio']),
         f'Frames whose time was too short for even the cheapest path\'s bound. {_lucky(summary)} of these '
         f'{frames_judged(summary) - summary["feasible_frames"]} were in time all the same. All misses together: '
         f'{_percent(summary["deadline_miss_ratio"])}.'),
        ('Accuracy (AP50)', '–' if summary['ap50'] is None else f'{100 * summary["ap50"]:.1f}',
         'The source has no ground truth.' if summary['ap50'] is None else
         'Out of 100, over every image sent, including those for which only older detections were there.'),
        ('Latency', f'{_rounded(latency["p50"])} ms', f'Median from image to detections; 99 % took at most '
         f'{_rounded(latency["p99"])} ms, the longest {_rounded(latency["max"])} ms.'),
        ('Paths used', str(summary['distinct_paths']),
         f'Different ways through the network; it changed {summary["path_switches"]} times from one frame to the next, '
         f'and re-planned {summary["replanned_frames"]} frames while they ran.'),
        ('Cost of deciding', f'{_rounded(decision["p50"])} µs', f'Median of one decision (99 %: '
         f'{_rounded(decision["p99"])} µs). All of the node outside the network: {_rounded(overhead["p50"])} ms.')]


def frames_judged(summary: dict) -> int:
    """Delivered frames of known age: those that met or missed their deadline."""
    return summary['frames_delivered'] - summary['frames_age_unknown']


def _lucky(summary: dict) -> int:
    """Infeasible frames that came in time."""
    infeasible = frames_judged(summary) - summary['feasible_frames']
    return infeasible - (summary['deadline_misses'] - summary['feasible_misses'])


def _percent(share: float | None) -> str:
    if share is None:
        return '–'
    return f'{100 * share:.1f} %' if share == 0 or share >= 0.001 else f'{100 * share:.2g} %'


def _rounded(value: float | None) -> str:
    if value is None:
        return '–'
    return f'{value:.0f}' if value >= 20 else f'{value:.1f}'
