"""What commands show on the terminal: lines beside their results, tables, and how far they are.

rich takes a while to load, so that it is loaded as something is shown.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

_LINE_EVERY_S = 20.0  # of a bar that no terminal shows


def say(text: object) -> None:
    """A line beside what the command prints, at once."""
    print(text, file=sys.stderr, flush=True)


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    left: Collection[str] = (),
    caption: str | None = None,
    no_wrap: bool = False,
    least_width: int = 0,
) -> None:
    """A table of results, its texts as they are: names of classes and folders may hold what rich takes for markup.

    Args:
        title: above it.
        columns: titles.
        rows: cells, one for each column.
        left: columns that are aligned to the left; the others to the right.
        caption: below it.
        no_wrap: cells are cut off rather than broken into lines.
        least_width: letters of a line, also on a narrower terminal.
    """
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, caption=caption)
    for column in columns:
        table.add_column(column, justify='left' if column in left else 'right', no_wrap=no_wrap)
    for row in rows:
        table.add_row(*row)
    Console(width=max(least_width, Console().width), markup=False, emoji=False).print(table)


@contextmanager
def progress_bar(
    words: str,
    total: float | None,
    /,
    *columns: str,
    shown: bool = True,
    redraws: bool = True,
    **fields: object,
) -> Iterator[Callable[..., None]]:
    """A bar while the block runs; gives what moves it: `update(completed=done, FIELD=value)`.

    In a file, where no bar moves, it is a line every 20 s.

    Args:
        words: before the bar.
        total: what `completed` reaches at the end; None where that is not known.
        columns: behind the bar: `count`, `percent`, `passed` and `left` (times), or a text with `{task.fields[FIELD]}`.
        shown: false for none.
        redraws: on a thread of its own, ten times a second; else only as it is moved, beside what is timed.
        fields: their first values.
    """
    from rich import progress
    from rich.console import Console

    kinds = {
        'count': progress.MofNCompleteColumn,
        'percent': progress.TaskProgressColumn,
        'passed': progress.TimeElapsedColumn,
        'left': progress.TimeRemainingColumn,
    }
    words_column = progress.TextColumn('{task.description}', markup=False)
    behind = [
        kinds[column]() if column in kinds else progress.TextColumn(column) for column in columns
    ]
    console = Console(stderr=True)
    said_s = time.monotonic()
    with progress.Progress(
        words_column,
        progress.BarColumn(),
        *behind,
        console=console,
        disable=not shown,
        auto_refresh=redraws,
    ) as bars:
        bar = bars.add_task(words, total=total, **fields)

        def update(**values: object) -> None:
            nonlocal said_s
            bars.update(bar, refresh=not redraws, **values)
            if shown and not console.is_terminal and time.monotonic() - said_s >= _LINE_EVERY_S:
                said_s = time.monotonic()
                console.print(bars.get_renderable())

        yield update
