"""The losses of a run, step by step: a file of JSON lines, and a picture of it."""
from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from deadline_perception.core.replaced_file import replace_file

_POINTS = 400  # of a curve in the picture; each is the mean of the steps that it stands for


class LossLog:
    """Lines such as `{"step": 3, "objectness": 0.02}`; made by `open_log`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lines = file.open('a', encoding='utf-8')

    def add(self, step: int, losses: dict[str, float]) -> None:
        """Notes the losses of one step, which come in the order of steps."""
        row = {'step': step, **{name: round(value, 5) for name, value in losses.items()}}
        with _named(self._file):
            self._lines.write(json.dumps(row) + '\n')

    def publish(self) -> None:
        """Brings all that was noted to disk and draws the picture, a PNG beside the lines."""
        with _named(self._file):
            self._lines.flush()
        draw_curves(self._file, self._file.with_suffix('.png'))

    def close(self) -> None:
        """Ends the log."""
        with _named(self._file):
            self._lines.close()


@contextmanager
def open_log(file: Path, step: int) -> Iterator[LossLog]:
    """The log of a run that goes on after `step`; what an earlier, killed run noted beyond it is forgotten.

    Args:
        file: JSON lines.
        step: number of the last step that counts, 0 for a run from the start.
    """
    kept = [row for row in _rows(file) if row['step'] <= step] if file.is_file() else []
    replace_file(file, ''.join(json.dumps(row) + '\n' for row in kept))
    log = LossLog(file)
    try:
        yield log
    finally:
        log.close()


def draw_curves(file: Path, picture: Path) -> None:
    """Draws the losses of a log over the steps, logarithmic, each point the mean of a stretch; nothing when empty.

    Args:
        file: JSON lines as `LossLog` writes them.
        picture: PNG to write.
    """
    from matplotlib.figure import Figure

    rows = _rows(file)
    if not rows:
        return
    stretch = -(-len(rows) // _POINTS)
    figure = Figure(figsize=(9, 5), layout='constrained')
    axes = figure.add_subplot(xlabel='step', ylabel='loss', yscale='log')
    for name in dict.fromkeys(name for row in rows for name in row if name != 'step'):
        points = np.array([(row['step'], row[name]) for row in rows if name in row])
        groups = np.array_split(points, -(-len(points) // stretch))
        axes.plot(*np.array([group.mean(0) for group in groups]).T, label=name, linewidth=1.2)
    axes.grid(alpha=0.3)
    axes.legend(fontsize='small', ncols=2)
    content = io.BytesIO()
    figure.savefig(content, format='png', dpi=110)
    replace_file(picture, content.getbuffer())


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Errors of a file that is open name it, such as those of a full disk."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(file)) from error


def _rows(file: Path) -> list[dict[str, float]]:
    """The whole lines of a log; a kill can leave a part of one at the end."""
    lines = file.read_text(encoding='utf-8').split('\n')
    return [json.loads(line) for line in lines[:-1] if line]
