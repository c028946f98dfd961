"""The default drive through the running nodes, alone and beside a busy program: misses, latency, accuracy, accounting.

    python benchmarks/demo_drive.py [--runs 2] [--loads 0 1]

Runs `deadline-perception demo` again and again, the loads in turn, and writes results/demo_drive.json: each run's summary.
"""
from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

from deadline_perception.tools.command_line import exit_status

RESULTS = Path(__file__).parent / 'results' / 'demo_drive.json'
SHOWN = ('frames_sent', 'frames_delivered', 'frames_replaced', 'frames_lost', 'distinct_paths')


def summary(load: int, folder: Path) -> dict:
    """Summary of one run beside so many busy programs."""
    command = [sys.executable, '-m', 'deadline_perception.tools.command_line', 'demo', '--out', str(folder),
               '--load', str(load)]
    status = subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode
    if status:
        sys.exit(status)  # the demo has said why
    return json.loads((folder / 'summary.json').read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--runs', type=int, default=2, help='runs with each load')
    parser.add_argument('--loads', type=int, nargs='+', default=[0, 1], help='busy programs beside the nodes')
    args = parser.parse_args()
    if args.runs < 1:
        parser.error(f'--runs is {args.runs}, expected at least 1')
    runs = []
    print('load  feasible missed  infeasible   AP50  latency p50   p99 ms  ' + '  '.join(SHOWN))
    for _ in range(args.runs):
        for load in args.loads:
            with tempfile.TemporaryDirectory() as folder:
                result = summary(load, Path(folder))
            runs.append({'busy_programs': load, **result})
            print(f'{load:4d}  {result["feasible_miss_ratio"]:15.2%}  {result["infeasible_ratio"]:10.2%}  '
                  f'{result["ap50"]:5.1%}  {result["latency_ms"]["p50"]:11.1f}  {result["latency_ms"]["p99"]:7.1f}  '
                  + '  '.join(f'{result[key]:{len(key)}d}' for key in SHOWN), flush=True)
    RESULTS.write_text(json.dumps({'date': date.today().isoformat(), 'runs': runs}, indent=1) + '\n')
    print(f'wrote {RESULTS.name}')


if __name__ == '__main__':
    sys.exit(exit_status(Path(__file__).name, main))
