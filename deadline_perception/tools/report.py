"""Turn a recording of the running nodes into summary.json and report.html.

RECORDING is what the demo, the bag_recorder node or `ros2 bag record` wrote: mcap or sqlite3, with any namespace. The
topics camera_info, detector/latency, detector/path, detector/detections, time_budget/budget, contention_monitor/state
and, for accuracy, ground_truth are read. With --source the report also shows pictures. Of two recordings it shows the
figures with their differences, and the charts on the same scales under one time cursor.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from deadline_perception.extras.data.class_names import counted
from deadline_perception.extras.report.comparison import (
    LETTERS,
    compared_figures,
    write_comparison,
)
from deadline_perception.extras.report.recorded_bag import read_recording
from deadline_perception.extras.report.report import write_report
from deadline_perception.extras.report.summary import classes_option, unscored_words
from deadline_perception.tools.support.file_arguments import check_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        'recording',
        type=Path,
        nargs='+',
        help='bag folder, or .mcap or .db3 file; a second one is shown beside it',
    )
    parser.add_argument('--source', help='the bag or other source with the images that were played')
    parser.add_argument(
        '--out', type=Path, default=Path('out/report'), help='folder for the report'
    )


def run(args: argparse.Namespace) -> int:
    """Reads the recording and writes the report; returns the exit status."""
    check_folder('--out', args.out)
    if len(args.recording) > 2:
        raise ValueError(
            f'there are {len(args.recording)} recordings, expected one, or two to show beside each other'
        )
    recordings = [read_recording(place) for place in args.recording]
    for recording in recordings:
        if recording.ending:
            print(recording.ending)
    source = None
    if args.source:
        from deadline_perception.extras.data.source import open_source

        source = open_source(args.source)
    if len(recordings) == 2:
        names = [str(place) for place in args.recording]
        summaries = write_comparison(recordings, names, args.out, source=source)
        print_compared_table(summaries, names, args.out / 'report.html')
        return 0
    summary = write_report(
        recordings[0],
        args.out,
        source=source,
        facts={'device': recordings[0].frames[-1].device},
        notes=[f'Read from {args.recording[0].name}.'],
    )
    print_closing_table(summary, args.out / 'report.html')
    return 0


def print_compared_table(summaries: Sequence[dict], names: Sequence[str], page: Path) -> None:
    """Prints the figures of two runs with their differences, and where the report lies."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title='Two runs beside each other')
    table.add_column(no_wrap=True)
    for title in (*LETTERS, 'B less A'):
        table.add_column(title, justify='right', no_wrap=True)
    for row in compared_figures(summaries):
        table.add_row(*map(escape, row.cells()))
    console = Console()
    console.print(table)
    for letter, name in zip(LETTERS, names):
        console.print(f'{letter}: {name}', soft_wrap=True, highlight=False, markup=False)
    console.print(f'Report: {page}', soft_wrap=True, highlight=False, markup=False)


def print_closing_table(summary: dict, page: Path) -> None:
    """Prints the figures of a run, as `evaluation.summary.summarise` gives them, and where its report lies."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title='Detections before a moving deadline', show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify='right', no_wrap=True)
    table.add_column(style='dim')
    sent, delivered = summary['frames_sent'], summary['frames_delivered']
    table.add_row(
        'images sent',
        str(sent),
        f'{delivered} delivered, {summary["frames_replaced"]} replaced by a newer '
        f'one, {summary["frames_lost"]} lost',
    )
    table.add_row(
        'deadline misses',
        _percent(summary['deadline_miss_ratio']),
        'of the delivered frames'
        + (
            f'; {summary["frames_age_unknown"]} of unknown age left out'
            if summary['frames_age_unknown']
            else ''
        ),
    )
    table.add_row(
        'feasible ones missed',
        _percent(summary['feasible_miss_ratio']),
        f'of {summary["feasible_frames"]} frames that some path fitted; below '
        f'{_percent(summary["feasible_miss_upper_95"])} with 95 % confidence',
    )
    table.add_row(
        'infeasible frames',
        _percent(summary['infeasible_ratio']),
        'not even the cheapest path fitted',
    )
    ap50 = summary['ap50']
    table.add_row(
        'AP50',
        '-' if ap50 is None else f'{100 * ap50:.1f}',
        unscored_words(summary) if ap50 is None else _scored_words(summary),
    )
    table.add_row(
        'paths used', str(summary['distinct_paths']), f'{summary["path_switches"]} switches'
    )
    for label, key, unit in (
        ('latency', 'latency_ms', 'ms'),
        ('bound', 'bound_ms', 'ms'),
        ('overhead', 'overhead_ms', 'ms'),
        ('one decision', 'decision_us', 'µs'),
    ):
        quantiles = summary[key]
        if quantiles['p50'] is not None:
            table.add_row(
                label,
                f'{quantiles["p50"]:.1f} {unit}',
                f'p95 {quantiles["p95"]:.1f}, p99 {quantiles["p99"]:.1f}, max {quantiles["max"]:.1f}',
            )
    console = Console()
    console.print(table)
    console.print(f'Report: {page}', soft_wrap=True, highlight=False, markup=False)


def _scored_words(summary: dict) -> str:
    boxes = summary['unscored_objects']
    if not boxes:
        return 'over all images sent'
    return (
        f'without {sum(boxes.values())} known boxes of classes that the network has not ({counted(boxes)}): '
        f'{classes_option(summary)} brings names together'
    )


def _percent(share: float | None) -> str:
    return '-' if share is None else f'{100 * share:.2f} %'
