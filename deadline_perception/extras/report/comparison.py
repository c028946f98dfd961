"""Two recorded runs beside each other: their figures with the differences, and their charts on the same scales."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deadline_perception.core.replaced_file import replace_file
from deadline_perception.extras.data import records
from deadline_perception.extras.report import charts
from deadline_perception.extras.report.gallery import frame_pictures
from deadline_perception.extras.report.over_time import (
    cursor_data,
    drawn_over_time,
    run_over_time,
    shared_scales,
)
from deadline_perception.extras.report.recording import Recording
from deadline_perception.extras.report.report import MOST_PATHS, render
from deadline_perception.extras.report.summary import summarise
from deadline_perception.extras.report.verdict import verdict

LETTERS = ('A', 'B')


@dataclass(frozen=True)
class ComparedFigure:
    """One figure of both runs.

    Attributes:
        label: what it is, with its unit.
        values: of the first and of the second run; None where a run has none.
        digits: after the point.
    """

    label: str
    values: tuple[float | None, float | None]
    digits: int

    def cells(self) -> list[str]:
        """Label, both values, and the second less the first, as text."""
        first, second = self.values
        if first is None or second is None:
            difference = '–'
        elif round(second - first, self.digits) == 0:
            difference = self._text(0.0)
        else:
            difference = f'{second - first:+.{self.digits}f}'
        return [self.label, self._text(first), self._text(second), difference]

    def _text(self, value: float | None) -> str:
        return '–' if value is None else f'{value:.{self.digits}f}'


# Label, keys of summary.json, factor to the label's unit, and digits after the point.
_FIGURES = (
    ('images sent', ('frames_sent',), 1, 0),
    ('delivered', ('frames_delivered',), 1, 0),
    ('replaced by a newer one', ('frames_replaced',), 1, 0),
    ('lost', ('frames_lost',), 1, 0),
    ('deadline misses, % of the delivered', ('deadline_miss_ratio',), 100, 2),
    ('feasible ones missed, %', ('feasible_miss_ratio',), 100, 2),
    ('below, with 95 % confidence, %', ('feasible_miss_upper_95',), 100, 2),
    ('infeasible frames, %', ('infeasible_ratio',), 100, 2),
    ('AP50', ('ap50',), 100, 1),
    ('AP 0.5 to 0.95', ('ap',), 100, 1),
    ('latency, median, ms', ('latency_ms', 'p50'), 1, 1),
    ('latency, 99 %, ms', ('latency_ms', 'p99'), 1, 1),
    ('latency, longest, ms', ('latency_ms', 'max'), 1, 1),
    ('bound, median, ms', ('bound_ms', 'p50'), 1, 1),
    ('bound over what the network took, median', ('bound_over_network',), 1, 2),
    ('frames that ran a smaller network than fitted', ('smaller_frames',), 1, 0),
    ('paths used', ('distinct_paths',), 1, 0),
    ('switches of path', ('path_switches',), 1, 0),
    ('node outside the network, median, ms', ('overhead_ms', 'p50'), 1, 1),
    ('one decision, median, µs', ('decision_us', 'p50'), 1, 1),
)


def compared_figures(summaries: Sequence[dict]) -> list[ComparedFigure]:
    """The figures of two summaries, of `summarise`, row by row; those that neither run has are dropped."""
    rows = []
    for label, keys, factor, digits in _FIGURES:
        values = tuple(_value(summary, keys, factor) for summary in summaries)
        rows.append(ComparedFigure(label, values, digits))
    for name in _in_either(summaries, 'ap_per_class'):
        values = tuple(
            _value(summary, ('ap_per_class', name, 'ap50'), 100) for summary in summaries
        )
        rows.append(ComparedFigure(f'AP50 of {name}', values, 1))
    return [row for row in rows if any(value is not None for value in row.values)]


def compared_paths(summaries: Sequence[dict]) -> list[ComparedFigure]:
    """Share of the delivered frames, in %, that each path ran on; the most used first."""
    rows = []
    for path in _in_either(summaries, 'paths'):
        shares = tuple(
            100 * summary['paths'].get(path, {'frames': 0})['frames'] / summary['frames_delivered']
            for summary in summaries
        )
        rows.append(ComparedFigure(path, shares, 1))
    return sorted(rows, key=lambda row: -max(row.values))


def write_comparison(
    recordings: Sequence[Recording],
    names: Sequence[str],
    out: Path,
    *,
    source: records.Sequence | None = None,
    notes: Sequence[str] = (),
) -> list[dict]:
    """Writes `summary.json` and `report.html` of two runs into a folder.

    Args:
        recordings: the two runs.
        names: what a reader calls them, such as their places.
        out: folder, made when absent.
        source: the images that were played in both; without them a click on a chart shows figures alone.
        notes: sentences that a reader must know.

    Returns:
        The summaries, as `summarise` makes them.

    Raises:
        ValueError: there are not two recordings with a name each.
    """
    if not len(recordings) == len(names) == len(LETTERS):
        raise ValueError(
            f'there are {len(recordings)} recordings with {len(names)} names, expected 2 of each'
        )
    summaries = [summarise(recording, {}) for recording in recordings]
    text = json.dumps(dict(zip(LETTERS, summaries)), indent=2, allow_nan=False)
    replace_file(out / 'summary.json', text + '\n')
    replace_file(out / 'report.html', comparison_page(recordings, summaries, names, source, notes))
    return summaries


def comparison_page(
    recordings: Sequence[Recording],
    summaries: Sequence[dict],
    names: Sequence[str],
    source: records.Sequence | None,
    notes: Sequence[str],
) -> str:
    """The whole page; arguments as of `write_comparison`."""
    pictures = [
        frame_pictures(recording, source) if source is not None else {} for recording in recordings
    ]
    runs = [run_over_time(*run) for run in zip(recordings, pictures)]
    scales = shared_scales(runs)
    paths = compared_paths(summaries)
    return render(
        'comparison.html.j2',
        title='Two runs beside each other',
        name='Detections before a moving deadline',
        subtitle='A is the first recording, B the second',
        letters=LETTERS,
        names=names,
        verdicts=[verdict(summary) for summary in summaries],
        figures=[row.cells() for row in compared_figures(summaries)],
        paths=[row.cells() for row in paths[:MOST_PATHS]],
        more_paths=max(0, len(paths) - MOST_PATHS),
        runs=[drawn_over_time(run, scales) for run in runs],
        histograms=[charts.bound_histogram(recording, scales) for recording in recordings],
        pictured=any(pictures),
        notes=[*notes, *_notes(recordings, names, pictures, source)],
        cursor=cursor_data(runs, scales),
    )


def _notes(
    recordings: Sequence[Recording],
    names: Sequence[str],
    pictures: Sequence[dict[int, str]],
    source: records.Sequence | None,
) -> list[str]:
    """What a reader must know of either run."""
    notes = []
    for recording, name, by_stamp in zip(recordings, names, pictures):
        notes += [f'{name}: {words}' for words in (recording.ending, recording.class_map) if words]
        if source is not None and not by_stamp:
            notes.append(
                f'The images of {source.name} could not be matched with the stamps of {name}, so a click '
                f'shows no picture of it.'
            )
    return notes


def _value(summary: dict, keys: Sequence[str], factor: float) -> float | None:
    found = summary
    for key in keys:
        found = found.get(key)
        if found is None:
            return None
    return factor * found


def _in_either(summaries: Sequence[dict], key: str) -> list[str]:
    return list(dict.fromkeys(name for summary in summaries for name in summary[key]))
