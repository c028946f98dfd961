"""The report's charts as inline SVG whose colours follow the page's light or dark theme."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator, Sequence

import numpy as np

from deadline_perception.core.operator_record import OperatorRecord
from deadline_perception.extras.report.causes import slowdown_of
from deadline_perception.extras.report.recording import FrameRecord, Recording
from deadline_perception.extras.report.scales import (
    MOST_RATIO,
    NETWORK_COLOURS,
    Scales,
    bound_ratios,
    frame_times_s,
    phase_layers,
    ratio_edges,
    stacked_ms,
    times_s,
)
from deadline_perception.runtime.job import Outcome

# Each colour is drawn as a mark of its own and then replaced by the CSS variable of the same name.
_THEME = {
    'ink': '#010203',
    'muted': '#010204',
    'grid': '#010205',
    'budget': '#010206',
    'latency': '#010207',
    'bound': '#010208',
    'miss': '#010209',
    'infeasible': '#01020a',
    'coasted': '#01020b',
    'speed': '#01020c',
    'slowdown': '#01020d',
    'level0': '#010210',
    'level1': '#010211',
    'level2': '#010212',
    'level3': '#010213',
    'level4': '#010214',
    'phase-age': '#010220',
    'phase-queue': '#010221',
    'phase-node': '#010222',
    **{f'phase-network{number}': f'#01023{number}' for number in range(NETWORK_COLOURS)},
}
_LEVELS = 5
LEFT, RIGHT = 0.1, 0.985  # share of the width where every time axis begins and ends
_WIDTH_IN = 11.5


def timeline(recording: Recording, frames: list[FrameRecord], scales: Scales) -> str:
    """Speed, then budget with latency and bound, then slowdown over time; misses and infeasible frames marked."""
    heights = (
        [1.0] * bool(recording.speed_mps.values) + [3.0] + [1.0] * bool(recording.slowdown.values)
    )
    figure, axes = _axes(heights, 1.7 + len(heights), 'timeline')
    time_s = frame_times_s(recording, frames)
    rows = iter(axes)
    if recording.speed_mps.values:
        row = next(rows)
        speed_time_s = times_s(recording, recording.speed_mps.stamps_ns)
        row.fill_between(
            speed_time_s, recording.speed_mps.values, color=_THEME['speed'], alpha=0.25, linewidth=0
        )
        row.plot(speed_time_s, recording.speed_mps.values, color=_THEME['speed'], linewidth=1.4)
        row.set_ylabel('speed\nm/s')
        row.set_ylim(0, scales.speed_mps)
    _draw_latency(next(rows), time_s, frames, scales)
    if recording.slowdown.values:
        row = next(rows)
        values = [slowdown_of(recording, frame) for frame in frames]
        row.plot(time_s, values, color=_THEME['slowdown'], linewidth=1.2)
        row.set_ylabel('slowdown\nfactor')
        row.set_ylim(0.9, scales.slowdown)
    _finish_time_axis(axes, scales)
    return _svg(figure)


def _draw_latency(row, time_s: np.ndarray, frames: list[FrameRecord], scales: Scales) -> None:
    budgets = np.array([frame.budget_ms for frame in frames])
    totals = np.array([frame.total_ms for frame in frames])
    bounds = np.array([frame.total_bound_ms for frame in frames])
    for index, frame in enumerate(frames):
        if not frame.feasible:
            half = 0.5 * float(np.median(np.diff(time_s))) if len(frames) > 1 else 0.05
            row.axvspan(
                time_s[index] - half,
                time_s[index] + half,
                color=_THEME['infeasible'],
                alpha=0.22,
                linewidth=0,
            )
    row.plot(time_s, budgets, color=_THEME['budget'], linewidth=2.0, drawstyle='steps-mid')
    row.plot(time_s, bounds, color=_THEME['bound'], linewidth=0.9, alpha=0.9)
    row.plot(time_s, totals, color=_THEME['latency'], linewidth=1.0, marker='.', markersize=3.5)
    coasted = np.array([frame.outcome is Outcome.COASTED for frame in frames], dtype=bool)
    missed = np.array([not frame.in_time for frame in frames], dtype=bool) & ~coasted
    row.plot(
        time_s[missed], totals[missed], 'X', color=_THEME['miss'], markersize=8, markeredgewidth=0
    )
    row.plot(
        time_s[coasted],
        totals[coasted],
        'v',
        color=_THEME['coasted'],
        markersize=7,
        markeredgewidth=0,
    )
    row.set_ylabel('image to\ndetections, ms')
    if scales.logarithmic:
        from matplotlib.ticker import LogLocator

        row.set_yscale('log')
        row.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
        row.yaxis.set_major_formatter(lambda value, _: f'{value:g}')
        row.yaxis.set_minor_formatter(lambda *_: '')
    row.set_ylim(*scales.latency_ms)


def lanes(recording: Recording, frames: list[FrameRecord], scales: Scales) -> str:
    """One lane per operator over time, shaded by how much of the network was used. Empty without recorded paths."""
    decided = [frame for frame in frames if frame.outcome is not Outcome.COASTED and frame.decision]
    operators = _operators(decided)
    if not operators:
        return ''
    figure, (row,) = _axes([1.0], 0.32 * len(operators) + 0.55, 'lanes')
    time_s = frame_times_s(recording, decided)
    step_s = float(np.median(np.diff(time_s))) if len(time_s) > 1 else 0.1

    def bars(
        values: list, place: int
    ) -> Iterator[tuple[object, tuple[float, float], tuple[float, float]]]:
        """Value, begin and length in s, and bottom and height, of each stretch of equal values that are known."""
        stop = 0
        for value, stretch in itertools.groupby(values):
            start, stop = stop, stop + len(list(stretch))
            if value is not None:
                end_s = (
                    min(time_s[stop], time_s[stop - 1] + 2 * step_s)
                    if stop < len(values)
                    else time_s[-1] + step_s
                )
                yield value, (time_s[start], end_s - time_s[start]), (place - 0.4, 0.8)

    for lane, name in enumerate(operators):
        shades = [
            _shade(
                next(
                    (operator for operator in frame.decision.operators if operator.name == name),
                    None,
                )
            )
            for frame in decided
        ]
        for shade, across, along in bars(shades, len(operators) - 1 - lane):
            row.broken_barh([across], along, color=_THEME[shade], linewidth=0)
    row.set_yticks(range(len(operators)), [name.replace('_', ' ') for name in reversed(operators)])
    row.set_ylim(-0.6, len(operators) - 0.4)
    row.grid(False)
    _finish_time_axis([row], scales)
    return _svg(figure)


def lane_levels(frames: list[FrameRecord]) -> list[tuple[str, list[tuple[str, str]]]]:
    """For the legend of `lanes`: operators of one kind and the same settings together, with those of their settings
    that occurred and the settings' CSS colour variables."""
    rows: dict[tuple, tuple[list[str], dict[int, tuple[str, str]]]] = {}
    operators = _operators([frame for frame in frames if frame.decision])
    for name, seen in operators.items():
        many = sum(
            other[0].kind == seen[0].kind and other[0].levels == seen[0].levels
            for other in operators.values()
        )
        names, levels = rows.setdefault(
            (seen[0].kind, seen[0].levels) if many > 2 else (name,), ([], {})
        )
        names.append(name.replace('_', ' '))
        levels |= {operator.level: (operator.setting, _shade(operator)) for operator in seen}
    return [
        (
            names[0] if len(names) == 1 else f'{names[0]} to {names[-1]}',
            [levels[level] for level in sorted(levels)],
        )
        for names, levels in rows.values()
    ]


def _operators(frames: list[FrameRecord]) -> dict[str, list[OperatorRecord]]:
    """What each operator was set to in frames with a decision, by its name, in the order of execution."""
    found: dict[str, list[OperatorRecord]] = {}
    for frame in frames:
        for operator in frame.decision.operators:
            found.setdefault(operator.name, []).append(operator)
    return found


def _shade(operator: OperatorRecord | None) -> str | None:
    """Colour of a setting by its place among the operator's."""
    if operator is None:
        return None
    share = operator.level / (operator.levels - 1) if operator.levels > 1 else 1.0
    return f'level{round(share * (_LEVELS - 1))}'


def phases(recording: Recording, frames: list[FrameRecord], scales: Scales) -> str:
    """Where the time of every frame went, stacked."""
    figure, (row,) = _axes([1.0], 2.7, 'phases')
    time_s = frame_times_s(recording, frames)
    row.stackplot(
        time_s,
        stacked_ms(recording, frames),
        colors=[_THEME[f'phase-{key}'] for key, _, _ in phase_layers(recording)],
        linewidth=0,
        step='mid',
    )
    budgets = np.array([frame.budget_ms for frame in frames])
    row.plot(
        time_s,
        np.where(
            budgets <= scales.phases_ms, budgets, np.nan
        ),  # of one above, only ends would show
        color=_THEME['budget'],
        linewidth=1.6,
        drawstyle='steps-mid',
    )
    row.set_ylim(0, scales.phases_ms)
    row.set_ylabel('image to\ndetections, ms')
    _finish_time_axis([row], scales)
    return _svg(figure)


def phase_legend(recording: Recording) -> list[tuple[str, str]]:
    """Words and CSS colour variables of `phases`, bottom first."""
    return [(words, f'phase-{key}') for key, words, _ in phase_layers(recording)]


def bound_histogram(recording: Recording, scales: Scales) -> str:
    """Distribution of the network's time over its bound; right of 1 the bound was exceeded."""
    ratios = bound_ratios(recording)
    figure, (row,) = _axes([1.0], 2.9, 'histogram', width_in=6.2)
    for within, colour in ((True, 'latency'), (False, 'miss')):
        row.hist(
            ratios[(ratios <= 1) == within],
            bins=ratio_edges(scales.ratio),
            color=_THEME[colour],
            alpha=0.85,
            rwidth=0.88,
        )
    row.axvline(1.0, color=_THEME['bound'], linewidth=2.0)
    row.text(
        1.005,
        0.97,
        ' bound',
        transform=row.get_xaxis_transform(),
        color=_THEME['ink'],
        va='top',
        fontsize=10,
    )
    row.set_xlim(0, scales.ratio)
    row.set_ylim(0, scales.ratio_frames)
    row.set_xlabel(f'network time / its bound (ratio, {MOST_RATIO:g} and more as {MOST_RATIO:g})')
    row.set_ylabel('frames')
    row.tick_params('x', pad=7)  # off the 0 of the other axis
    return _svg(figure)


def _axes(heights: Sequence[float], height_in: float, salt: str, width_in: float = _WIDTH_IN):
    """A figure of stacked rows with the page's look. `salt` keeps the ids of several SVGs in one page apart."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams.update(
        {'svg.fonttype': 'none', 'svg.hashsalt': salt, 'font.size': 10, 'axes.axisbelow': True}
    )
    figure = Figure(figsize=(width_in, height_in + 0.35))
    bottom = 0.46 / (height_in + 0.35)
    rows = figure.subplots(
        len(heights),
        1,
        sharex=True,
        squeeze=False,
        gridspec_kw={
            'height_ratios': heights,
            'hspace': 0.16,
            'left': LEFT * _WIDTH_IN / width_in,
            'right': RIGHT,
            'top': 0.985,
            'bottom': bottom,
        },
    )[:, 0]
    figure.patch.set_visible(False)
    for row in rows:
        row.patch.set_visible(False)
        row.grid(True, color=_THEME['grid'], linewidth=0.8)
        row.tick_params(colors=_THEME['muted'], labelcolor=_THEME['muted'], length=0)
        row.yaxis.label.set_color(_THEME['muted'])
        row.xaxis.label.set_color(_THEME['muted'])
        for spine in row.spines.values():
            spine.set_visible(False)
        row.spines['bottom'].set_visible(True)
        row.spines['bottom'].set_color(_THEME['grid'])
    return figure, list(rows)


def _finish_time_axis(rows: list, scales: Scales) -> None:
    rows[-1].set_xlim(*scales.time_s)
    rows[-1].set_xlabel('seconds since the first image')


def _svg(figure) -> str:
    out = io.StringIO()
    figure.savefig(out, format='svg', metadata={'Date': None, 'Creator': None})
    svg = out.getvalue()
    svg = svg[svg.index('<svg') :]
    for name, colour in _THEME.items():
        svg = svg.replace(colour, f'var(--{name})')
    svg = re.sub(
        r'font: ([\d.]+px) [^;"]*', r'font-size: \1', svg
    )  # the page's own font instead of the figure's
    svg = re.sub(r' ?font-family: [^;"]*;?', '', svg)
    svg = re.sub(r'<metadata>.*?</metadata>', '', svg, flags=re.S)
    return re.sub(r'(<svg [^>]*?)width="[^"]*" ?([^>]*?)height="[^"]*"', r'\1\2', svg, count=1)
