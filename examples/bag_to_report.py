"""A recording of the nodes as a page with figures and pictures.   .venv/bin/python examples/bag_to_report.py RUN.mcap [OUT]

The launch file records with `record:=run.mcap`; `make demo` leaves one in out/demo.
"""

import sys
from pathlib import Path

from deadline_perception.extras.report.recorded_bag import read_recording
from deadline_perception.extras.report.report import write_report


def main(bag: str, out: str = 'out/report') -> dict:
    recording = read_recording(Path(bag))
    summary = write_report(recording, Path(out))
    missed = [frame for frame in recording.frames if not frame.deadline_met]
    print(f'{len(recording.frames)} frames, {len(missed)} late; {out}/report.html')
    return summary


if __name__ == '__main__':
    main(*sys.argv[1:])
