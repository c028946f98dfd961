"""The network on one thread and on several, alone and beside busy programs, without and with the node's priority.

    python benchmarks/threads.py [--threads 1 2] [--rounds 6]

One process for each number of threads; they take turns, so that none computes while another one is timed. Each times
frames of three paths, then a kind of load changes. What a second thread gains where a core is free, and what it costs
where none is, is what the parameter `threads` of the detector decides. Prints medians, 95 % and worst times, memory and
kernel threads of each process, and writes results/threads.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
from parts.beside_programs import beside_programs
from parts.harness import Run, run_script, show, turns

from deadline_perception.core.device import process_environment, use_threads
from deadline_perception.extras.external_models.model_set.set_file import ModelSpec, load_model
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.networks.model_reference import find_weights
from deadline_perception.runtime.loading import warm_up
from deadline_perception.system.priority import Role, ThreadPriority, inference_thread
from deadline_perception.timing.profile import time_frame
from deadline_perception.tools.support.file_arguments import DEFAULT_WEIGHTS
from deadline_perception.tools.support.model_probe import resident_mb

PATHS = {
    'full': 's00000-w1.00-p100-h2',
    'middle': 'r0.53-s00000-w1.00-p100-h2',
    'cheapest': 'r0.25-s11111-w0.50-p25-h0',
}
FRAMES = 25
BUSY = 'while True:\n    pass\n'


def serve(weights: Path, threads: int) -> None:
    """The work of one process: times frames whenever it is told a priority, and prints them."""
    use_threads(threads)
    images = [frame.load_bgr() for frame in render_drive(seconds=2.0).frames]
    with inference_thread('off'):  # for its name, by which the threads that it starts are found
        network = load_model(ModelSpec('shipped', 'multi-path', weights))
        warm_up(network, images[0].shape[:2])
        kernel_threads = len(os.listdir('/proc/self/task'))
        print(
            json.dumps({'memory_mb': resident_mb(), 'kernel_threads': kernel_threads}), flush=True
        )
        for line in sys.stdin:
            priority = ThreadPriority(line.strip(), lock_memory=False)
            priority.raise_thread(Role.INFERENCE)
            found: dict[str, list[float]] = {}
            for name, path in PATHS.items():
                for number in range(FRAMES):
                    took_ms = time_frame(
                        network, images[number % len(images)], network.path_space.parse(path)
                    )[0]
                    found.setdefault(name, []).append(took_ms)
                    priority.between_frames()
            in_force = priority.in_force
            priority.restore()
            print(json.dumps({'in_force': in_force, 'ms': found}), flush=True)


def main(run: Run) -> None:
    args = run.args
    weights = find_weights(args.weights)
    if args.serve:
        serve(weights, args.serve)
        return
    processes = {
        threads: subprocess.Popen(
            [sys.executable, __file__, '--serve', str(threads), '--weights', str(weights)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **process_environment(threads)},
        )
        for threads in args.threads
    }
    facts = {
        threads: json.loads(process.stdout.readline()) for threads, process in processes.items()
    }
    times, in_force = {}, {}
    for busy in args.busy:
        for priority in ('off', 'auto'):
            with beside_programs(BUSY, [()] * busy):
                for _, threads in turns(args.threads, 1 if run.quick else args.rounds):
                    process = processes[threads]
                    process.stdin.write(f'{priority}\n')
                    process.stdin.flush()
                    answer = json.loads(process.stdout.readline())
                    in_force[priority] = answer['in_force']
                    for path, took_ms in answer['ms'].items():
                        times.setdefault((busy, priority, path, threads), []).extend(took_ms)
    for process in processes.values():
        process.stdin.close()
        process.wait()
    rows, shown = [], []
    for busy, priority, path in dict.fromkeys(key[:3] for key in times):
        found = {}
        for threads in args.threads:
            took_ms = times[busy, priority, path, threads]
            found[threads] = {
                'median_ms': statistics.median(took_ms),
                'p95_ms': float(np.quantile(took_ms, 0.95)),
                'worst_ms': max(took_ms),
                'frames': len(took_ms),
            }
        rows.append({'busy': busy, 'priority': priority, 'path': path, 'by_threads': found})
        shown.append(
            (
                busy,
                priority,
                path,
                *(
                    f'{row["median_ms"]:.1f} / {row["p95_ms"]:.1f} / {row["worst_ms"]:.1f}'
                    for row in found.values()
                ),
            )
        )
    show(
        'ms: median / 95 % / worst',
        ('busy programs', 'priority', 'path', *(f'{threads} threads' for threads in args.threads)),
        shown,
    )
    for threads, told in facts.items():
        print(
            f'{threads} threads: {told["memory_mb"]:.0f} MB, {told["kernel_threads"]} threads of the kernel'
        )
    run.write(paths=PATHS, rows=rows, processes=facts, priorities=in_force)


if __name__ == '__main__':
    run_script(
        main,
        {
            '--threads': {'type': int, 'nargs': '+', 'default': [1, 2]},
            '--rounds': {
                'type': int,
                'default': 6,
                'least': 1,
                'help': f'of {FRAMES} frames of each path in each case',
            },
            '--busy': {
                'type': int,
                'nargs': '+',
                'default': [0, 1, 2],
                'help': 'programs beside the network',
            },
            '--weights': {'type': Path, 'default': DEFAULT_WEIGHTS},
            '--serve': {'type': int, 'help': argparse.SUPPRESS},
        },
        quick='one round',
    )
