"""Turn a recording of the running nodes into summary.json and report.html.

RECORDING is what the demo, the bag_recorder node or `ros2 bag record` wrote: mcap or sqlite3, with any namespace. The
topics camera_info, detector/latency, detector/path, detector/detections, time_budget/budget, contention_monitor/state
and, for accuracy, ground_truth are read. With --source the report also shows pictures.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from deadline_perception.extras.report.recorded_bag import read_recording
from deadline_perception.extras.report.report import write_report
from deadline_perception.extras.report.summary import unscored_words
from deadline_perception.tools.support.file_arguments import check_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument('recording', type=Path, help='bag folder, or .mcap or .db3 file')
    parser.add_argument('--source', help='the bag or other source with the images that were played')
    parser.add_argument(
        '--out', type=Path, default=Path('out/report'), help='folder for the report'
    )


def run(args: argparse.Namespace) -> int:
    """Reads the recording and writes the report; returns the exit status."""
    check_folder('--out', args.out)
    recording = read_recording(args.recording)
    if recording.ending:
        print(recording.ending)
    source = None
    if args.source:
        from deadline_perception.extras.data.source import open_source

        source = open_source(args.source)
    summary = write_report(
        recording,
        args.out,
        source=source,
        facts={'device': recording.frames[-1].device},
        notes=[f'Read from {args.recording.name}.'],
    )
    print_closing_table(summary, args.out / 'report.html')
    return 0


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
        unscored_words(summary) if ap50 is None else 'over all images sent',
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


def _percent(share: float | None) -> str:
    return '-' if share is None else f'{100 * share:.2f} %'
