"""The default drive through the running nodes, alone and beside two busy programs: misses, latency, accuracy, accounting.

    python benchmarks/demo_drive.py [--runs 5] [--loads 0 2]

Runs `deadline-perception demo` again and again, the loads in turn, and writes results/demo_drive.json: each run's
summary.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from parts.harness import Run, option, run_command, run_script

SHOWN = ('frames_sent', 'frames_delivered', 'frames_replaced', 'frames_lost', 'distinct_paths')


def summary(folder: Path, *words: str) -> dict:
    """Summary of one run of the demo with these arguments."""
    run_command('demo', '--out', folder, *words)
    return json.loads((folder / 'summary.json').read_text())


def main(run: Run) -> None:
    args = run.args
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
        },
    )
