"""The losses of a run, step by step: a file of JSON lines, and a picture of it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np

from deadline_perception.core.replaced_file import replace_file
from deadline_perception.core.untrusted_file import parse_json
from deadline_perception.extras.training.line_log import named_errors, open_lines

_POINTS = 400  # of a curve in the picture; each is the mean of the steps that it stands for


class LossLog:
    """Lines such as `{"step": 3, "objectness": 0.02}`; made by `open_log`."""

    def __init__(self, file: Path, lines: BinaryIO) -> None:
        self._file, self._lines = file, lines

    def add(self, step: int, losses: dict[str, float]) -> None:
        """Notes the losses of one step, which come in the order of steps."""
        row = {'step': step, **{name: round(value, 5) for name, value in losses.items()}}
        with named_errors(self._file):
            self._lines.write(f'{json.dumps(row)}\n'.encode())

    def publish(self) -> None:
        """Brings all that was noted to disk and draws the picture, a PNG beside the lines."""
        with named_errors(self._file):
            self._lines.flush()
        draw_curves(self._file, self._file.with_suffix('.png'))

    def close(self) -> None:
        """Ends the log."""
        with named_errors(self._file):
            self._lines.close()


@contextmanager
def open_log(file: Path, step: int) -> Iterator[LossLog]:
    """The log of a run that goes on after `step`; what an earlier, killed run noted beyond it is forgotten.

    Args:
        file: JSON lines.
        step: number of the last step that counts, 0 for a run from the start.

    Raises:
        LogInUse: another run writes it at this moment.
        ValueError: a line is none of a log.
    """
    log = LossLog(file, open_lines(file, lambda line: _row(line, file)['step'] <= step))
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
    for text in axes.legend(fontsize='small', ncols=2).get_texts():
        text.set_parse_math(False)  # names are a file's, and no formulas
    content = io.BytesIO()
    figure.savefig(content, format='png', dpi=110)
    replace_file(picture, content.getbuffer())


def _rows(file: Path) -> list[dict[str, float]]:
    """The whole lines of a log; a kill can leave a part of one at the end."""
    return [_row(line, file) for line in file.read_bytes().split(b'\n')[:-1]]


def _row(line: bytes, file: Path) -> dict[str, float]:
    try:
        row = parse_json(line.decode())
        return {name: float(row[name]) for name in ('step', *row)}
    except (ValueError, TypeError, LookupError) as error:
        raise ValueError(
            f'{file} is damaged, expected the losses of a training, one step a line: delete it, and the '
            f'curve begins anew'
        ) from error
