"""How long the detector takes to start, and what memory it holds, for real.

    python benchmarks/start_up.py [--starts 5]

Every start is a process of its own under a camera of 10 Hz that sends already. The time until the first answer counts
from the start of the process. Needs prepared segments (`deadline-perception profile`). A start takes 10 to 20 s. The
last is on a device that nobody prepared or measured: without a cache, so that segments are prepared as the node is
configured, and times are scaled from another device's. Writes results/start_up.json.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

import psutil
from parts.harness import Run, option, run_script
from parts.node_process import profile_for
from parts.node_stand import Stand

from deadline_perception.core.stopwatch import now_ms

SETTLED_S = 4.0
GOAL_S, GOAL_MB, BARE_GOAL_S = 2.0, 400.0, 60.0


def start_node(profile: Path | None) -> dict[str, float]:
    """Starts the detector once, and ends it; without a profile where nothing is prepared.

    Returns:
        Time to the first answer, s, resident memory, and its part where pages are shared evenly among those that map
        them, MB.
    """
    with tempfile.TemporaryDirectory() as folder:
        cache = {'XDG_CACHE_HOME': f'{folder}/cache'} if profile is None else {}
        with patch.dict(os.environ, cache):
            with Stand(('detector',), Path(folder), profile) as stand:
                process = psutil.Process(stand.processes['detector'].pid)
                since_s = (now_ms() - min(stand.heard.answers.values())) / 1000.0
                took_s = time.time() - process.create_time() - since_s
                time.sleep(SETTLED_S)
                held = process.memory_full_info()
    return {
        'first_answer_s': round(took_s, 2),
        'rss': round(held.rss / 1024e3, 1),
        'pss': round(held.pss / 1024e3, 1),
    }


def main(run: Run) -> None:
    args = run.args
    profile = profile_for()
    rows = []
    for _ in range(args.starts):
        rows.append(start_node(profile))
        print(rows[-1], flush=True)
    bare = start_node(None)
    print(f'nothing prepared: {bare}')
    run.goal('s to the first answer', max(row['first_answer_s'] for row in rows), most=GOAL_S)
    run.goal('resident MB', max(row['rss'] for row in rows), most=GOAL_MB)
    run.goal('s to the first answer of a bare device', bare['first_answer_s'], most=BARE_GOAL_S)
    run.write(starts=args.starts, rows=rows, bare=bare)


if __name__ == '__main__':
    run_script(main, {'--starts': option(5, least=1)})
