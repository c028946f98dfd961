"""Time of a frame outside the network: image stamp to published detections, less the network's own time.

    python benchmarks/node_overhead.py [--seconds 15]

Plays a rendered drive of raw images of 640x380 px, at a rate low enough that no frame waits for the one before it. Writes
results/node_overhead.json.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from parts.harness import Run, option, run_script
from parts.node_process import profile_for

from deadline_perception.extras.data.bag import write_bag
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.extras.report.recorded_bag import read_recording
from deadline_perception.extras.report.recording import Recording
from deadline_perception.extras.report.timeliness import Spread
from deadline_perception.networks.model_reference import find_weights
from deadline_perception.runtime.job import Outcome
from deadline_perception.tools.demo import check_ros
from deadline_perception.tools.support.file_arguments import DEFAULT_WEIGHTS
from deadline_perception.tools.support.node_run import run_nodes

RATE_HZ = 4.0
SPEED_MPS = 12.0  # leaves about 80 ms, so that frames end long before the next one comes
LIMIT_S = 300.0


def record(folder: Path, bag: Path, profile: Path) -> Recording:
    """Runs all nodes on a bag."""
    recording = folder / 'recording.mcap'
    run_nodes(
        [
            *('--bag', str(bag), '--record', str(recording)),
            *('--model', str(find_weights(DEFAULT_WEIGHTS)), '--profile', str(profile)),
        ],
        folder / 'nodes.log',
        limit_s=LIMIT_S,
        tick=lambda passed_s: None,
    )
    return read_recording(recording)


def overheads(recording: Recording) -> dict:
    """Spread of the time outside the network over all frames whose network finished, ms."""
    frames = [
        frame
        for frame in recording.frames
        if frame.outcome is not Outcome.COASTED and math.isfinite(frame.total_ms)
    ]
    return {
        'frames': len(frames),
        'overhead_ms': asdict(Spread.of(f.total_ms - f.network_ms for f in frames)),
    }


def main(run: Run) -> None:
    args = run.args
    if not 1.0 <= args.seconds <= 200.0:
        raise ValueError(f'--seconds is {args.seconds}, expected 1 to 200 s')
    check_ros()
    profile = profile_for()
    drive = render_drive(seconds=args.seconds, rate_hz=RATE_HZ)
    drive = replace(
        drive, frames=tuple(replace(frame, speed_mps=SPEED_MPS) for frame in drive.frames)
    )
    with tempfile.TemporaryDirectory() as name:
        bag = Path(name) / 'input.mcap'
        write_bag(drive, bag)
        found = overheads(record(Path(name), bag, profile))
    print(found)
    run.write(rate_hz=RATE_HZ, **found)


if __name__ == '__main__':
    run_script(main, {'--seconds': option(15.0, 'length of each run')})
