"""What the impact profiler found, as a picture: delays over time, their density with levels, delays beside units."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from levels import ContentionLevel, UnitDelay, delay_density, smoothed

from deadline_perception.extras.contention.load import units_text
from deadline_perception.extras.contention.unit import KINDS

_SMOOTHED_FRAMES = 9
_KIND_COLOURS = dict(zip(KINDS, ('#2a6fbb', '#c2571a', '#3b8f4d')))


def draw_grading(
    path: str,
    delays_ms: Sequence[float],
    levels: Sequence[ContentionLevel],
    unit_delays: Sequence[UnitDelay],
    file: Path,
) -> None:
    """Writes the picture, as the contention paper's Figs. 7, 9 and 8, to a file of a type that its name tells.

    Args:
        path: that ran.
        delays_ms: of it beside what was graded.
        levels: ascending.
        unit_delays: of it beside units.
        file: of the picture.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 3.6), layout='constrained')
    over_time, density, units = figure.subplots(1, 3, sharey=True, width_ratios=(2.4, 1.0, 1.4))
    smooth_ms = smoothed(np.asarray(delays_ms), _SMOOTHED_FRAMES)
    over_time.plot(delays_ms, '.', color='#9aa5b1', markersize=2.0)
    over_time.plot(smooth_ms, color='#20262d', linewidth=0.9)
    over_time.set(xlabel='frame, beside programs', ylabel=f'delay of {path}, ms')
    grid_ms, values = delay_density(smooth_ms)
    density.fill_betweenx(grid_ms, 0.0, values, color='#9aa5b1')
    density.set(xlabel='density')
    for kind in KINDS:
        rows = sorted(
            (delay.units.get(kind, 0), delay.delay_ms)
            for delay in unit_delays
            if set(delay.units) <= {kind}
        )
        if len(rows) > 1:
            units.plot(
                *zip(*rows),
                'o-',
                color=_KIND_COLOURS[kind],
                markersize=3.5,
                linewidth=1.0,
                label=kind,
            )
    units.set(xlabel='contention units at work')
    for level in levels:
        for axes in (over_time, density, units):
            axes.axhline(level.delay_ms, color='#b3261e', linewidth=0.8)
        if level.units is not None:
            density.annotate(
                units_text(level.units),
                (0.98, level.delay_ms),
                xycoords=('axes fraction', 'data'),
                ha='right',
                va='bottom',
                fontsize=7.5,
            )
    if units.get_legend_handles_labels()[0]:
        units.legend(frameon=False, fontsize=8)
    figure.savefig(file, dpi=130)
