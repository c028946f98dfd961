"""The default drive through the running nodes, alone and beside two busy programs: misses, latency, accuracy, accounting.

    python benchmarks/demo_drive.py [--runs 5] [--loads 0 2]
    python benchmarks/demo_drive.py --overhead                # an image at a time: time outside the network
    python benchmarks/demo_drive.py --picture out/demo        # of a demo that ran: docs/demo.png, the README's picture

Runs `deadline-perception demo` again and again, the loads in turn, and writes results/demo_drive.json: each run's
summary. The overhead is image stamp to published detections, less the network's own time, of raw images of 640x380 px, at a
rate low enough that no frame waits for the one before it; it goes into results/node_overhead.json. The picture shows an
image under a large budget and one under a small, and what was allowed, promised and taken.
"""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from parts.harness import ROOT, Run, option, quantiles, run_command, run_script

from deadline_perception.core.images.annotate import annotate
from deadline_perception.extras.data.source import open_source
from deadline_perception.extras.report.gallery import images_of
from deadline_perception.extras.report.recorded_bag import read_recording
from deadline_perception.extras.report.scales import times_s
from deadline_perception.runtime.job import Outcome

SHOWN = ('frames_sent', 'frames_delivered', 'frames_replaced', 'frames_lost', 'distinct_paths')
SLOW_DRIVE = 'drive:seconds=15,rate_hz=4'
LEAST_SCORE = 0.4  # of the boxes drawn


def summary(folder: Path, *words: str) -> dict:
    """Summary of one run of the demo with these arguments."""
    run_command('demo', '--out', folder, *words)
    return json.loads((folder / 'summary.json').read_text())


def overhead(demo: Path) -> dict:
    """Spread of the time outside the network over all frames whose network finished, ms."""
    run_command('demo', '--out', demo, '--source', SLOW_DRIVE)
    times_ms = [
        frame.total_ms - frame.network_ms
        for frame in read_recording(demo / 'recording.mcap').frames
        if frame.outcome is not Outcome.COASTED and math.isfinite(frame.total_ms)
    ]
    return {'frames': len(times_ms), 'overhead_ms': quantiles(times_ms, 'p50', 'p95', 'p99', 'max')}


def draw(demo: Path, file: Path) -> None:
    """Two annotated images, those in time with the most certain objects, above speed and times of all frames."""
    recording = read_recording(demo / 'recording.mcap')
    images = images_of(recording, open_source(str(demo / 'input.mcap')))
    frames = [one for one in recording.frames if one.stamp_ns and math.isfinite(one.total_ms)]
    frames.sort(key=lambda frame: frame.stamp_ns)
    seconds = times_s(recording, [frame.stamp_ns for frame in frames])
    figure = Figure(figsize=(10.0, 7.0), layout='constrained')
    grid = figure.add_gridspec(3, 2, height_ratios=(3.6, 0.8, 2.4))
    times, speed = figure.add_subplot(grid[2, :]), figure.add_subplot(grid[1, :])
    told = times_s(recording, recording.speed_mps.stamps_ns), recording.speed_mps.values
    speed.fill_between(*told, color='#0f8a6d', alpha=0.35)
    speed.set(ylabel='speed, m/s', xlim=(0, seconds[-1]))
    for name, colour, values in (
        ('budget', '#16202c', [frame.budget_ms for frame in frames]),
        ('bound of the path', '#d98a00', [frame.total_bound_ms for frame in frames]),
        ('latency', '#1f77d0', [frame.total_ms for frame in frames]),
    ):
        times.plot(seconds, values, color=colour, label=name)
    late = np.array([not frame.in_time for frame in frames])
    late_ms = np.array([frame.total_ms for frame in frames])[late]
    times.plot(seconds[late], late_ms, 'X', color='#c02626', label='late or coasted')
    most_ms = 1.2 * max(frame.budget_ms for frame in frames)
    times.set(xlabel='time, s', ylabel='image to detections, ms', ylim=(0, most_ms))
    times.set_xlim(speed.get_xlim())
    times.legend(loc='lower center', bbox_to_anchor=(0.5, 0.99), ncols=4, frameon=False)
    shown = [one for one in frames if one.in_time and one.detections is not None and one.decision]
    shown = [frame for frame in shown if frame.stamp_ns in images]
    low_ms, high_ms = np.quantile([frame.budget_ms for frame in shown], (0.2, 0.8))
    large = [frame for frame in shown if frame.budget_ms >= high_ms]
    small = [frame for frame in shown if frame.budget_ms <= low_ms]
    for column, group in enumerate((large, small)):
        frame = max(group, key=lambda one: one.detections.with_score(LEAST_SCORE).scores.sum())
        drawn = annotate(
            images[frame.stamp_ns].load_bgr(),
            frame.detections.with_score(LEAST_SCORE),
            recording.class_names,
            budget_ms=frame.budget_ms,
            bound_ms=frame.total_bound_ms,
            latency_ms=frame.total_ms,
            path=frame.path,
            operators=frame.decision.operators,
            outcome='detected',
        )
        axes = figure.add_subplot(grid[0, column])
        axes.imshow(drawn[..., ::-1])
        second = float(times_s(recording, [frame.stamp_ns])[0])
        words = f'at {second:.1f} s, {np.interp(second, *told):.0f} m/s: {frame.budget_ms:.0f} ms'
        axes.set_title(f'{words} allowed', fontsize=10)
        axes.axis('off')
    figure.savefig(file, dpi=100)
    print(f'wrote {file}')


def main(run: Run) -> None:
    args = run.args
    if args.picture is not None:
        return draw(args.picture, args.out or ROOT / 'docs' / 'demo.png')
    if args.overhead:
        run.name = 'node_overhead'
        with tempfile.TemporaryDirectory() as folder:
            found = overhead(Path(folder))
        print(found)
        return run.write(source=SLOW_DRIVE, **found)
    runs = []
    print('load  feasible missed  infeasible   AP50  latency p50   p99 ms  ' + '  '.join(SHOWN))
    for _ in range(args.runs):
        for load in args.loads:
            with tempfile.TemporaryDirectory() as folder:
                result = summary(Path(folder), '--load', str(load))
            runs.append({'busy_programs': load, **result})
            print(
                f'{load:4d}  {result["feasible_miss_ratio"]:15.2%}  {result["infeasible_ratio"]:10.2%}  '
                f'{result["ap50"]:5.1%}  {result["latency_ms"]["p50"]:11.1f}  {result["latency_ms"]["p99"]:7.1f}  '
                + '  '.join(f'{result[key]:{len(key)}d}' for key in SHOWN),
                flush=True,
            )
    run.write(runs=runs)


if __name__ == '__main__':
    run_script(
        main,
        {
            '--runs': option(5, 'runs with each load', least=1),
            '--loads': option([0, 2], 'busy programs beside the nodes', type=int, nargs='+'),
            '--overhead': option(False, 'measure time outside the network instead'),
            '--picture': option(None, 'draw this demo instead', type=Path, metavar='DEMO'),
        },
    )
