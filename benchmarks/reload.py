"""How much new weights, loaded beside the running network, lengthen the frames meanwhile, for real.

    python benchmarks/reload.py [--reloads 4] [--between 36] [--profile FILE]

The detector runs as a process of its own under a camera of 10 Hz. It is asked to reload (service `~/reload`; the same
weights, which costs what others do), `--between` s after the answer to the request before. An image belongs to the time
during a reload (from the request to its answer), after it (the following 30 s, in which the network before is given
back) or before it (what is left), by when it was sent. By time: latency of answered images, answers later than the
budget, images that no answer came for, and answers that tracks or the last result gave in the network's place. Writes
results/reload.json.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
from deadline_perception.msg import FrameLatency
from parts.harness import Run, run_script
from parts.node_listener import HeardFrame
from parts.node_process import StandError, profile_for
from parts.node_stand import Stand
from std_srvs.srv import Trigger

from deadline_perception.core.stopwatch import now_ms

AFTER_S, LIMIT_S = 30.0, 120.0
SETTLED_S = 4.0  # first frames are another benchmark's, `start_up.py`
TIMES = ('before', 'during', 'after')


def time_of(sent_ms: float, reloads: list[tuple[float, float]], between_ms: float) -> str | None:
    """Which time an image belongs to; None for one that is too early or too late to count.

    Args:
        sent_ms: when it was sent.
        reloads: when each was asked for and when its answer came, ms.
        between_ms: how long before a reload counts.
    """
    for asked_ms, answered_ms in reloads:
        if asked_ms <= sent_ms < answered_ms:
            return 'during'
        if answered_ms <= sent_ms < answered_ms + 1000.0 * AFTER_S:
            return 'after'
    return (
        'before'
        if any(asked_ms - between_ms <= sent_ms < asked_ms for asked_ms, _ in reloads)
        else None
    )


def figures(frames: list[HeardFrame], images: int) -> dict[str, float | int | None]:
    """What became of the images of one time.

    Args:
        frames: those that were answered.
        images: how many there were.
    """
    latencies_ms = [frame.total_ms for frame in frames]
    quantiles = (
        np.quantile(latencies_ms, (0.5, 0.99, 1.0)).round(1).tolist() if frames else [None] * 3
    )
    return {
        'images': images,
        **dict(zip(('median_ms', 'p99_ms', 'longest_ms'), quantiles)),
        'late': sum(not frame.met for frame in frames),
        'lost': images - len(frames),
        'tracks': sum(frame.outcome != FrameLatency.DETECTED for frame in frames),
    }


def measure(profile: Path, reloads: int, between_s: float) -> dict:
    """Reloads a running detector some times; what became of the images by time, and how long reloads took."""
    with tempfile.TemporaryDirectory() as folder:
        with Stand(('detector',), Path(folder), profile) as stand:
            time.sleep(SETTLED_S)
            done: list[tuple[float, float]] = []
            for _ in range(reloads):
                time.sleep(between_s)
                asked_ms = now_ms()
                answer = stand.call(Trigger, 'detector/reload', Trigger.Request(), LIMIT_S)
                if answer is None or not answer.success:
                    raise StandError(
                        f'the reload failed: {"no answer" if answer is None else answer.message}'
                    )
                done.append((asked_ms, now_ms()))
            time.sleep(AFTER_S + 1.0)
            sent, heard = list(stand.sent), {frame.number: frame for frame in stand.heard.frames}
            answered = set(stand.heard.answers)
        found = {name: ([], []) for name in TIMES}
        for number, image in enumerate(sent):
            name = time_of(image.sent_ms, done, 1000.0 * between_s)
            if name is not None:
                frame = heard.get(number)
                found[name][0].append(number)
                if frame is not None and number in answered:
                    found[name][1].append(frame)
        return {
            'reload_s': [
                round((answered_ms - asked_ms) / 1000.0, 2) for asked_ms, answered_ms in done
            ],
            'times': {
                name: figures(frames, len(images)) for name, (images, frames) in found.items()
            },
        }


def main(run: Run) -> None:
    args = run.args
    if args.reloads < 1 or not args.between > AFTER_S:
        raise ValueError(
            f'--reloads is {args.reloads} and --between {args.between} s, expected at least 1 and '
            f'more than {AFTER_S:.0f} s'
        )
    result = measure(profile_for(args.profile), args.reloads, args.between)
    print(
        f'{args.reloads} reloads of {min(result["reload_s"]):.1f} to {max(result["reload_s"]):.1f} s'
    )
    print('time      images   median      p99  longest, ms   late   lost   by tracks')
    for name, row in result['times'].items():
        median_ms, p99_ms, longest_ms = (
            '-' if row[key] is None else f'{row[key]:.1f}'
            for key in ('median_ms', 'p99_ms', 'longest_ms')
        )
        print(
            f'{name:8} {row["images"]:7} {median_ms:>8} {p99_ms:>8} {longest_ms:>8} {row["late"]:10} {row["lost"]:6} '
            f'{row["tracks"]:11}'
        )
    run.write(**result)


if __name__ == '__main__':
    run_script(
        main,
        {
            '--reloads': {'type': int, 'default': 4},
            '--between': {'type': float, 'default': 36.0, 'help': 's from one reload to the next'},
            '--profile': {'type': Path},
        },
    )
