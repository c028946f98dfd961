"""How long the detector takes to start, what memory it holds, and how late its first frames are, for real.

    python benchmarks/start_up.py [--starts 5] [--profile FILE]

Every start is a process of its own under a camera of 10 Hz that sends already. The time until the first answer counts
from the start of the process. Needs prepared segments (`deadline-perception profile`). A start takes 10 to 20 s. The
last is on a device that nobody prepared or measured: without a cache, so that segments are prepared as the node is
configured, and times are scaled from another device's. Writes results/start_up.json.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from pathlib import Path
from statistics import median

from parts.harness import Run, run_script
from parts.node_process import profile_for
from parts.node_stand import Stand

from deadline_perception.core.stopwatch import now_ms

FIRST_FRAMES, SETTLED_S = 5, 4.0
GOAL_S, GOAL_MB, BARE_GOAL_S = 2.0, 400.0, 60.0


def memory_mb(pid: int) -> dict[str, float]:
    """Resident memory of a process, and its part where pages are shared evenly among those that map them, in MB."""
    text = Path(f'/proc/{pid}/smaps_rollup').read_text(encoding='ascii')
    return {
        name.lower(): round(int(re.search(rf'^{name}:\s+(\d+)', text, re.MULTILINE)[1]) / 1000.0, 1)
        for name in ('Rss', 'Pss')
    }


def noted(stand: Stand) -> tuple[Stand, list[float]]:
    """The same, and when it started processes."""
    launched: list[float] = []
    launch = stand.launch

    def launch_noted(name: str):
        launched.append(now_ms())
        return launch(name)

    stand.launch = launch_noted
    return stand, launched


def start_node(profile: Path) -> dict:
    """Starts the detector once, and ends it."""
    with tempfile.TemporaryDirectory() as folder:
        stand, launched = noted(Stand(('detector',), Path(folder), profile))
        with stand:
            time.sleep(SETTLED_S)
            frames = sorted(
                (frame for frame in stand.heard.frames if frame.number >= 0),
                key=lambda frame: frame.heard_ms,
            )
            found = memory_mb(stand.processes['detector'].pid)
        return {
            'first_answer_s': round((min(stand.heard.answers.values()) - launched[0]) / 1000.0, 2),
            **found,
            'first_latencies_ms': [round(frame.total_ms, 1) for frame in frames[:FIRST_FRAMES]],
            'later_latency_ms': round(median(frame.total_ms for frame in frames[FIRST_FRAMES:]), 1),
        }


def start_bare() -> dict:
    """Starts the detector once where nothing is prepared."""
    with tempfile.TemporaryDirectory() as folder:
        kept = os.environ.get('XDG_CACHE_HOME')
        os.environ['XDG_CACHE_HOME'] = f'{folder}/cache'
        try:
            stand, launched = noted(Stand(('detector',), Path(folder), None))
            with stand:
                first_ms = min(stand.heard.answers.values())
                time.sleep(SETTLED_S)
                frames = [frame for frame in stand.heard.frames if frame.number >= 0]
        finally:
            if kept is None:
                del os.environ['XDG_CACHE_HOME']
            else:
                os.environ['XDG_CACHE_HOME'] = kept
    return {
        'first_answer_s': round((first_ms - launched[0]) / 1000.0, 2),
        'later_latency_ms': round(median(frame.total_ms for frame in frames), 1),
    }


def main(run: Run) -> None:
    args = run.args
    profile = profile_for(args.profile)
    rows: list[dict] = []
    print('first answer   RSS, PSS         first latencies, and the median of later ones')
    for _ in range(args.starts):
        row = start_node(profile)
        rows.append(row)
        print(
            f'{row["first_answer_s"]:6.1f} s   {row["rss"]:6.0f}, {row["pss"]:5.0f} MB   '
            f'{", ".join(f"{ms:.0f}" for ms in row["first_latencies_ms"])}; {row["later_latency_ms"]:.0f} ms',
            flush=True,
        )
    bare = start_bare()
    print(
        f'nothing prepared: {bare["first_answer_s"]:.1f} s to the first answer; latencies '
        f'{bare["later_latency_ms"]:.0f} ms after it'
    )
    run.goal('s to the first answer', max(row['first_answer_s'] for row in rows), most=GOAL_S)
    run.goal('resident MB', max(row['rss'] for row in rows), most=GOAL_MB)
    run.goal('s to the first answer of a bare device', bare['first_answer_s'], most=BARE_GOAL_S)
    run.write(starts=args.starts, rows=rows, bare=bare)


if __name__ == '__main__':
    run_script(
        main, {'--starts': {'type': int, 'default': 5, 'least': 1}, '--profile': {'type': Path}}
    )
