"""What the contention monitor costs: its share of one core.

    python benchmarks/monitor_cost.py [--seconds 30]

The node runs as a process and hears frames at 10 Hz, as beside a detector, while another process runs frames of the
smallest path one after the other. The share of a core is the processor time of all the node's threads over that of the
clock. Goal: under 2 %. Writes results/monitor_cost.json.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from parts.harness import Run, option, run_script

from deadline_perception.core.device import process_environment, use_threads
from deadline_perception.core.share_folder import DEFAULT_MODEL
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.core.tied_process import start_tied, stop_tied
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.networks.model_reference import load_network
from deadline_perception.runtime.loading import warm_up
from deadline_perception.timing.profile import time_frame

GOAL_CORE = 0.02
FRAMES_HZ = 10.0  # that the monitor hears of


def run_frames() -> None:
    """Runs frames of the smallest path until the process is ended."""
    use_threads(1)
    network, _ = load_network(DEFAULT_MODEL, 'cpu')
    images = [frame.load_bgr() for frame in render_drive(seconds=2.0).frames]
    warm_up(network, images[0].shape[:2])
    print('ready', flush=True)
    while True:
        for image in images:
            time_frame(network, image, network.path_space.smallest)


def core_share(seconds: float) -> float:
    """Share of a core that the node takes beside frames."""
    from parts.node_process import profile_for
    from parts.node_stand import Feed, Stand

    feed = Feed(images_hz=0.0, budgets_hz=0.0, states_hz=0.0, speeds_hz=0.0, frames_hz=FRAMES_HZ)
    worker = start_tied(
        [sys.executable, __file__, '--work'],
        env={**os.environ, **process_environment(1)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            Stand(('contention_monitor',), Path(folder), profile_for(None), feed=feed) as stand,
        ):
            worker.stdout.readline()
            monitor = psutil.Process(stand.processes['contention_monitor'].pid)
            before_s, begun_ms = sum(monitor.cpu_times()[:2]), now_ms()
            while (lasted_ms := now_ms() - begun_ms) < 1000.0 * seconds:
                time.sleep(1.0)
            return 1000.0 * (sum(monitor.cpu_times()[:2]) - before_s) / lasted_ms
    finally:
        stop_tied(worker)


def main(run: Run) -> None:
    args = run.args
    if args.work:
        run_frames()
        return
    share = core_share(args.seconds)
    run.goal('share of a core', share, most=GOAL_CORE)
    run.write(seconds=args.seconds, core_share=share)


if __name__ == '__main__':
    run_script(
        main,
        {
            '--seconds': option(30.0, above=0.0),
            '--work': option(False, argparse.SUPPRESS),
        },
    )
