"""The pictures that scripts draw of their results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure


@contextmanager
def picture(file: Path, columns: int = 1, **options: object) -> Iterator[list[Axes]]:
    """Axes beside each other to draw on, written to a file at the end, with legends where lines have labels; options
    are those of `Figure.subplots`."""
    figure = Figure(figsize=(5.0 * columns, 4.0), layout='constrained')
    axes = list(figure.subplots(1, columns, squeeze=False, **options)[0])
    yield axes
    for one in axes:
        if one.get_legend_handles_labels()[0]:
            one.legend(frameon=False, fontsize=8)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=100)
