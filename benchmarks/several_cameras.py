"""What a further camera costs: memory and time of a frame with 1, 2 and 4 detectors of one model in a process.

    python benchmarks/several_cameras.py [--model street] [--rounds 8]

Each number of cameras is a process of its own; all take their rounds in turn, in random order, so that what else the
machine does falls on all alike: ratios count. A frame has no limit of time, so that all take the longest path. Memory
is PSS, what others share counted in part, and RSS.
Writes results/several_cameras.json.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from parts.harness import Run, option, quantiles, run_script, turns

from deadline_perception.core.device import DEFAULT_THREADS, process_environment

CAMERAS = '1', '2', '4'
MOST_MB, MOST_PERCENT = 40.0, 3.0  # of a further camera


def main(run: Run) -> None:
    args, rounds = run.args, 2 if run.quick else run.args.rounds
    script = Path(__file__).parent / 'parts' / 'camera_process.py'
    environment = {**os.environ, **process_environment(DEFAULT_THREADS)}
    processes = {}
    for name in CAMERAS:  # one after the other, so that none waits for another
        processes[name] = subprocess.Popen(
            [sys.executable, script, args.model, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        if processes[name].stdout.readline() != 'ready\n':
            raise ValueError(f'{args.model} cannot be loaded, expected a model of this device')
    taken: dict[str, list[dict]] = {name: [] for name in CAMERAS}
    for _, name in turns(CAMERAS, rounds):
        print('', file=processes[name].stdin, flush=True)
        taken[name].append(json.loads(processes[name].stdout.readline()))
    for process in processes.values():
        process.stdin.close()
        process.wait()
    rows = {name: figures(name, found, taken['1']) for name, found in taken.items()}
    for name, row in rows.items():
        print(f'{name}: {row}')
    run.goal('memory of a further camera, MB,', rows['4']['further_mb'], most=MOST_MB)
    run.goal(
        'time of a frame with 4 cameras, % more,', rows['4']['more_time_percent'], most=MOST_PERCENT
    )
    run.write(model=args.model, rounds=rounds, cameras=rows)


def figures(name: str, found: list[dict], alone: list[dict]) -> dict[str, object]:
    """Of a number of cameras, beside the rounds of one camera."""
    count = int(name)
    pss_mb, alone_mb = (found_of[-1]['pss'] for found_of in (found, alone))
    ratios = [
        median(here['frames_ms']) / median(there['frames_ms']) for here, there in zip(found, alone)
    ]
    return {
        'pss_mb': pss_mb,
        'further_mb': None if count == 1 else round((pss_mb - alone_mb) / (count - 1), 1),
        'rss_mb': found[-1]['rss'],
        'frame_ms': quantiles([ms for each in found for ms in each['frames_ms']], 'p50', 'p90'),
        'cpu_ms': round(median(each['cpu_ms'] for each in found), 2),
        'more_time_percent': round(100.0 * (median(ratios) - 1.0), 1),
    }


if __name__ == '__main__':
    run_script(
        main,
        {
            '--model': option('street', 'name or file'),
            '--rounds': option(8, 'of 12 frames each', least=1),
        },
        quick='2 rounds',
    )
