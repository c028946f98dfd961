"""Time of a frame outside the network: image stamp to published detections, less the network's own time.

    python benchmarks/node_overhead.py [--seconds 15]

Plays a rendered drive at a rate low enough that no frame waits for the one before it, at two image sizes, raw and as
JPEG. Writes results/node_overhead.json.
"""

from __future__ import annotations

import itertools
import math
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from parts.harness import Run, option, run_script

from deadline_perception.core.device import DEFAULT_THREADS
from deadline_perception.core.share_folder import share_folder
from deadline_perception.extras.data.bag import write_bag
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.extras.report.recorded_bag import read_recording
from deadline_perception.extras.report.recording import Recording
from deadline_perception.extras.report.timeliness import Spread
from deadline_perception.networks.model_reference import find_weights
from deadline_perception.runtime.job import Outcome
from deadline_perception.tools.demo import check_ros
from deadline_perception.tools.support.ensure_profile import ensure_profile
from deadline_perception.tools.support.file_arguments import DEFAULT_WEIGHTS
from deadline_perception.tools.support.node_run import run_nodes

SIZES = ((640, 380), (1280, 720))
RATE_HZ = 4.0
SPEED_MPS = 12.0  # leaves about 80 ms, so that frames end long before the next one comes
LIMIT_S = 300.0


def record(folder: Path, bag: Path, transport: str, weights: Path, profile: Path) -> Recording:
    """Runs all nodes on a bag."""
    recording = folder / 'recording.mcap'
    recording.unlink(missing_ok=True)
    run_nodes(
        [
            *('--bag', str(bag), '--record', str(recording), '--image-transport', transport),
            *('--model', str(weights), '--profile', str(profile)),
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
    weights = find_weights(DEFAULT_WEIGHTS)
    profile = ensure_profile(
        weights, 'cpu', DEFAULT_THREADS, share_folder() / 'models' / 'profiles'
    )
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for (width, height), transport in itertools.product(SIZES, ('raw', 'compressed')):
            drive = render_drive(seconds=args.seconds, rate_hz=RATE_HZ, width=width, height=height)
            drive = replace(
                drive, frames=tuple(replace(frame, speed_mps=SPEED_MPS) for frame in drive.frames)
            )
            bag = Path(name) / 'input.mcap'
            write_bag(drive, bag, compressed=transport == 'compressed', overwrite=True)
            found = overheads(record(Path(name), bag, transport, weights, profile.file))
            rows.append({'width': width, 'height': height, 'transport': transport, **found})
            print(rows[-1], flush=True)
    run.write(rate_hz=RATE_HZ, rows=rows)


if __name__ == '__main__':
    run_script(main, {'--seconds': option(15.0, 'length of each run')})
