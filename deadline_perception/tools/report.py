"""Turn a recording of the running nodes into summary.json and report.html.

RECORDING is what the demo, the bag_recorder node or `ros2 bag record` wrote: mcap or sqlite3, with any namespace. The
topics camera_info, detector/latency, detector/path, detector/detections, time_budget/budget, contention_monitor/state
and, for accuracy, ground_truth are read. With --source the report also shows pictures.
"""
from __future__ import annotations

import argparse
from pathlib import Path

from deadline_perception.evaluation.recorded_bag import read_recording
from deadline_perception.evaluation.report import write_report
from deadline_perception.tools.closing_table import print_closing_table
from deadline_perception.tools.output_place import check_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument('recording', type=Path, help='bag folder, or .mcap or .db3 file')
    parser.add_argument('--source', help='the bag or other source with the images that were played')
    parser.add_argument('--out', type=Path, default=Path('out/report'), help='folder for the report')


def run(args: argparse.Namespace) -> int:
    """Reads the recording and writes the report; returns the exit status."""
    check_folder('--out', args.out)
    recording = read_recording(args.recording)
    if recording.ending:
        print(recording.ending)
    source = None
    if args.source:
        from deadline_perception.datasets.source import open_source

        source = open_source(args.source)
    summary = write_report(recording, args.out, source=source, facts={'device': recording.frames[-1].device},
                           notes=[f'Read from {args.recording.name}.'])
    print_closing_table(summary, args.out / 'report.html')
    return 0
