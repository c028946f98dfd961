"""The README's picture: two annotated frames of a demo, and its speed, budget, bounds and latencies over time.

deadline-perception demo && python benchmarks/demo_picture.py [--demo out/demo] [--out docs/demo.png]
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image

from deadline_perception.core.images.annotate import annotate
from deadline_perception.extras.data.records import Sequence
from deadline_perception.extras.data.source import open_source
from deadline_perception.extras.report.gallery import images_of
from deadline_perception.extras.report.recorded_bag import read_recording
from deadline_perception.extras.report.recording import FrameRecord, Recording
from deadline_perception.extras.report.scales import times_s
from deadline_perception.tools.command_line import exit_status

ROOT = Path(__file__).parents[1]
WIDTH_IN = 10.0
DPI = 100
BUDGET, BOUND, LATENCY, SPEED, LATE = '#16202c', '#d98a00', '#1f77d0', '#0f8a6d', '#c02626'
LEAST_SCORE = 0.4  # of the boxes drawn


def telling_frames(frames: list[FrameRecord]) -> list[FrameRecord]:
    """Of the frames in time with the most certain detections, one under a large budget and one under a small."""
    frames = [
        frame
        for frame in frames
        if frame.in_time and frame.detections is not None and frame.decision is not None
    ]
    budgets = np.quantile([frame.budget_ms for frame in frames], (0.2, 0.8))
    groups = (
        [f for f in frames if f.budget_ms >= budgets[1]],
        [f for f in frames if f.budget_ms <= budgets[0]],
    )
    return [
        max(group, key=lambda frame: frame.detections.with_score(LEAST_SCORE).scores.sum())
        for group in groups
    ]


def draw(recording: Recording, source: Sequence, out: Path) -> None:
    """Draws a run whose images are at hand."""
    matplotlib.use('agg')
    from matplotlib import pyplot

    images = images_of(recording, source)
    frames = sorted(
        (frame for frame in recording.frames if frame.stamp_ns and math.isfinite(frame.total_ms)),
        key=lambda frame: frame.stamp_ns,
    )
    time_s = times_s(recording, [frame.stamp_ns for frame in frames])
    figure = pyplot.figure(figsize=(WIDTH_IN, 7.0), dpi=DPI, layout='constrained')
    grid = figure.add_gridspec(3, 2, height_ratios=(3.6, 0.8, 2.4))
    budget_row = figure.add_subplot(grid[2, :])
    speed_row = figure.add_subplot(grid[1, :])
    speed_row.sharex(budget_row)
    speed_row.fill_between(
        times_s(recording, recording.speed_mps.stamps_ns),
        recording.speed_mps.values,
        color=SPEED,
        alpha=0.35,
        linewidth=0,
    )
    speed_row.set(ylabel='speed, m/s', ylim=(0, None))
    speed_row.tick_params(labelbottom=False)
    for name, values, style in (
        ('budget', [f.budget_ms for f in frames], {'color': BUDGET, 'linewidth': 2.2}),
        ('bound of the path', [f.total_bound_ms for f in frames], {'color': BOUND}),
        ('latency', [f.total_ms for f in frames], {'color': LATENCY}),
    ):
        budget_row.plot(time_s, values, label=name, **{'linewidth': 1.1, **style})
    late = np.array([not frame.in_time for frame in frames])
    budget_row.plot(
        time_s[late],
        np.array([frame.total_ms for frame in frames])[late],
        'X',
        color=LATE,
        markersize=7,
        label='late or coasted',
    )
    budget_row.set(
        xlabel='time, s',
        ylabel='image to detections, ms',
        xlim=(0, time_s[-1]),
        ylim=(0, 1.2 * max(frame.budget_ms for frame in frames)),
    )
    budget_row.legend(loc='lower center', bbox_to_anchor=(0.5, 0.99), ncols=4, frameon=False)
    for column, frame in enumerate(
        telling_frames([frame for frame in frames if frame.stamp_ns in images])
    ):
        axes = figure.add_subplot(grid[0, column])
        axes.imshow(
            annotate(
                images[frame.stamp_ns].load_bgr(),
                frame.detections.with_score(LEAST_SCORE),
                recording.class_names,
                budget_ms=frame.budget_ms,
                bound_ms=frame.total_bound_ms,
                latency_ms=frame.total_ms,
                path=frame.path,
                operators=frame.decision.operators,
                outcome='detected',
            )[..., ::-1]
        )
        second = float(times_s(recording, [frame.stamp_ns])[0])
        speed_mps = np.interp(
            second, times_s(recording, recording.speed_mps.stamps_ns), recording.speed_mps.values
        )
        axes.set_title(
            f'at {second:.1f} s, {speed_mps:.0f} m/s: {frame.budget_ms:.0f} ms allowed', fontsize=10
        )
        axes.axis('off')
    figure.canvas.draw()
    picture = np.asarray(figure.canvas.buffer_rgba())[..., :3]
    Image.fromarray(picture).quantize(256, Image.Quantize.FASTOCTREE).save(out, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        '--demo', type=Path, default=ROOT / 'out' / 'demo', help='folder that the demo wrote'
    )
    parser.add_argument('--out', type=Path, default=ROOT / 'docs' / 'demo.png')
    args = parser.parse_args()
    draw(
        read_recording(args.demo / 'recording.mcap'),
        open_source(str(args.demo / 'input.mcap')),
        args.out,
    )
    print(f'wrote {args.out}, {args.out.stat().st_size / 1000:.0f} kB')


if __name__ == '__main__':
    sys.exit(exit_status(Path(__file__).name, main))
