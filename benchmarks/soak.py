"""A soak: all nodes run for long under a camera, odometry and watchers; does any of them take more and more?

    python benchmarks/soak.py [--minutes 60] [--profile FILE]

Every few seconds, memory (resident), threads and file descriptors of every node process are noted. After a warm-up, the
first fifth of the run and at least 30 s, they are judged. Memory grows when the slope of the medians of 20 equal
stretches of time (Theil and Sen) is, at the lower end of its 95 % interval, more than 4 MB an hour, and the last
stretch is more than 1 MB above the first, without which a run of minutes would be judged by single pages. Threads and
descriptors grow when the fewest of the last quarter are more than the most of the first. A node that was started anew
fails, too. Prints a table and writes results/soak.json.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from nav_msgs.msg import Odometry
from parts.harness import Run, option, run_script, show
from parts.node_process import ProcessFigures, profile_for
from parts.node_stand import Feed, Stand
from scipy.stats import theilslopes
from sensor_msgs.msg import Image

from deadline_perception.nodes.middleware import make_room_for_images
from deadline_perception.nodes.node_table import NODES
from deadline_perception.tools.demo import check_ros
from deadline_perception.tools.support.node_run import keep_to_this_machine

STRETCHES = 20
WARM_UP_SHARE, WARM_UP_S = 0.2, 30.0
GROWTH_MB_PER_H, GROWTH_MB = 4.0, 1.0
SAMPLES = 600  # over the whole run, but at most one a second


def growth_of(at_s: Sequence[float], figures: Sequence[ProcessFigures]) -> dict:
    """Judges one process's figures, warm-up left out; see the module."""
    if len(figures) < STRETCHES:
        raise ValueError(f'{len(figures)} samples, expected at least {STRETCHES}')
    edges = [index * len(figures) // STRETCHES for index in range(STRETCHES + 1)]
    stretches = list(zip(edges, edges[1:]))
    memory_mb = [
        statistics.median(found.memory_kb / 1024.0 for found in figures[begin:end])
        for begin, end in stretches
    ]
    hours = [statistics.median(at_s[begin:end]) / 3600.0 for begin, end in stretches]
    slope, _, low, high = theilslopes(memory_mb, hours, 0.95)
    row = {
        'samples': len(figures),
        'memory_mb': (memory_mb[0], memory_mb[-1]),
        'slope_mb_per_h': (slope, low, high),
    }
    grows = low > GROWTH_MB_PER_H and memory_mb[-1] - memory_mb[0] > GROWTH_MB
    row['grows'] = ['memory'] if grows else []
    quarter = len(figures) // 4
    for name in ('threads', 'descriptors'):
        values = [getattr(found, name) for found in figures]
        row[name] = (min(values), max(values))
        if min(values[-quarter:]) > max(values[:quarter]):
            row['grows'].append(name)
    return row


def soak(
    stand: Stand, seconds: float
) -> tuple[list[float], list[dict[str, tuple[int, ProcessFigures]]]]:
    """Notes the figures of all nodes. Blocks; returns times and, for each, process number and figures by node."""
    period_s = max(1.0, seconds / SAMPLES)
    at_s, samples, begun_s = [], [], time.monotonic()
    while time.monotonic() - begun_s < seconds:
        pids, found = stand.pids(), stand.figures()
        at_s.append(time.monotonic() - begun_s)
        samples.append(
            {name: (pids[name], figures) for name, figures in found.items() if name in pids}
        )
        # What the listener notes is its own memory, not the nodes'; but a long run shall not fill the machine.
        for notes in (stand.heard.diagnostics, stand.heard.speeds, stand.heard.budgets):
            del notes[:-1000]
        time.sleep(period_s)
    return at_s, samples


def main(run: Run) -> int:
    args = run.args
    check_ros()
    keep_to_this_machine()
    make_room_for_images()

    def drive(message: Odometry) -> None:
        message.twist.twist.linear.x = 8.0 + 7.0 * math.sin(time.monotonic() / 20.0)

    with (
        tempfile.TemporaryDirectory() as folder,
        Stand(
            ('bringup',), Path(folder), profile_for(args.profile), feed=Feed(speed=drive)
        ) as stand,
    ):
        stand.node.create_subscription(Image, 'path_visualizer/image', lambda message: None, 1)
        at_s, samples = soak(stand, args.minutes * 60.0)
        images, answered = len(stand.sent), len(stand.heard.frames)
        lost = stand.heard.frames[-1].lost if stand.heard.frames else 0
    warm_s = max(WARM_UP_S, WARM_UP_SHARE * args.minutes * 60.0)
    begun = next(index for index, at in enumerate(at_s) if at >= warm_s)
    print(f'{images} images, {answered} answered, {lost} lost by the middleware')
    rows, failed = [], False
    for name in [entry.name for entry in NODES] + ['bringup']:
        pids = {sample[name][0] for sample in samples if name in sample}
        if len(pids) != 1 or any(name not in sample for sample in samples):
            failed = True
            print(f'{name:>20} was started {len(pids)} times, or was away: not judged')
            continue
        growth = growth_of(at_s[begun:], [sample[name][1] for sample in samples[begun:]])
        failed |= bool(growth['grows'])
        rows.append({'node': name, **growth})
    show(
        'what each node took after the warm-up',
        'node | memory MB | slope MB/h (95 %) | threads | descriptors | grows',
        [
            (
                row['node'],
                '{:.1f} to {:.1f}'.format(*row['memory_mb']),
                '{:.2f} ({:.2f}, {:.2f})'.format(*row['slope_mb_per_h']),
                '{} to {}'.format(*row['threads']),
                '{} to {}'.format(*row['descriptors']),
                ', '.join(row['grows']) or 'no',
            )
            for row in rows
        ],
    )
    run.write(
        minutes=args.minutes,
        warm_up_s=warm_s,
        images=images,
        answered=answered,
        lost=lost,
        growth_mb_per_h=GROWTH_MB_PER_H,
        withstood=not failed,
        nodes=rows,
    )
    return int(failed)


if __name__ == '__main__':
    run_script(
        main,
        {
            '--minutes': option(10.0, 'length of the run', least=1.0),
            '--profile': option(
                None, "of the shipped weights; without it this device's own", type=Path
            ),
        },
    )
