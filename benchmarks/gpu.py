"""Every test and benchmark that needs a GPU, in parts of at most ten minutes, into one folder to commit or send.

    make gpu                                  # or: python benchmarks/gpu.py [--only PART ...] [--into FOLDER] [--list]

On a machine without a GPU it says within a minute what it would do, and why it does nothing of it. A part that takes
longer than its time is ended, one that fails does not stop the others, and a part whose results are there already is
not run again, so that it can be called until all is done. The folder, by default out/gpu/DEVICE, holds what each part
printed, its results, and summary.json: what ran, what was skipped, and why. The two of research/ write beside their
scripts, into files named after the device.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from parts.harness import COMMAND, ROOT, run_logged, show

from deadline_perception.core.device import DeviceNotFound, read_device_facts
from deadline_perception.core.json_file import JsonFileError, read_object
from deadline_perception.core.replaced_file import replace_file
from deadline_perception.tools.command_line import exit_status

LIMIT_S, ENDED = 600.0, 124  # and the status of a part that takes longer
SUMMARY = 'summary.json'
DONE = 'it is done already'
CUDA_TESTS = (
    'test/engines/test_cuda_graphs.py',
    'test/extras/external_models/model_set/test_onnx_runtime.py',
    'test/networks/multi_path/test_network.py',
    'test/networks/multi_path/test_operators.py',
    'test/networks/multi_path/test_checkpoint.py',
    'test/extras/training',
    'research/multi_path/test_layer_visits.py',
    'test/extras/contention/test_unit.py',
    'test/extras/contention/test_load.py',
    'test/tools/test_profile.py',
)


@dataclass(frozen=True)
class Part:
    """One thing to run: words after the Python interpreter, `{into}` is the folder of results, and expected minutes."""

    name: str
    shows: str
    command: str
    minutes: float


OF_PACKAGE = ' '.join(COMMAND[1:])  # a command of the package
PARTS = (
    Part('doctor', 'what the machine has and lacks', f'{OF_PACKAGE} doctor', 1),
    Part('tests', 'tests that need a GPU', f'-m pytest -q -rs -n 4 {" ".join(CUDA_TESTS)}', 3),
    *(
        Part(
            f'profile_{way}',
            f'times of all segments, {words}',
            f'{OF_PACKAGE} profile --device cuda {options} --out {{into}}/profile_{way}.json',
            2,
        )
        for way, words, options in (
            ('float32', 'as CUDA graphs, and their worst cases', '--minutes 1'),
            ('float16', 'the same in float16', '--engine float16 --minutes 1'),
            ('eager', 'without CUDA graphs', '--engine eager --quick'),
        )
    ),
    Part(
        'wcet_bounds',
        'the analytical model of CUDA graphs: bounds, AP',
        'research/multi_path/wcet_bounds.py --device cuda --frames 6000 '
        '--out {into}/wcet_bounds.json',
        9,
    ),
    Part(
        'layer_wcet',
        'worst cases of layers (multi-path paper, table VI)',
        'research/multi_path/layer_wcet.py --device cuda',
        6,
    ),
    Part(
        'operator_times',
        'time of each operator at each setting',
        'research/multi_path/operator_times.py --device cuda',
        1,
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [part.name for part in PARTS]
    parser.add_argument('--only', nargs='+', choices=names, default=names, metavar='PART')
    parser.add_argument('--into', type=Path, help='folder of results; out/gpu/DEVICE without')
    parser.add_argument('--list', action='store_true', help='say what there is, and run nothing')
    args = parser.parse_args()
    try:
        device = str(read_device_facts('cuda').slug)
        why_not = ''
    except DeviceNotFound as error:
        device = 'none'
        why_not = str(error)
    into = (args.into or ROOT / 'out' / 'gpu' / device).absolute()
    known = summary(into)
    done = {name for name, outcome in known.items() if outcome.get('status') == 0}
    chosen = [part for part in PARTS if part.name in args.only]
    show(
        f'parts, some {sum(part.minutes for part in chosen):.0f} minutes in all, into {into}',
        ('part', 'minutes', 'shows', 'skipped because'),
        [
            (part.name, part.minutes, part.shows, DONE if part.name in done else why_not or '-')
            for part in chosen
        ],
    )
    if args.list:
        return 0
    into.mkdir(parents=True, exist_ok=True)
    todo = [part for part in chosen if part.name not in done]
    for part in todo:
        known[part.name] = {'skipped': why_not} if why_not else run(part, into)
        replace_file(into / SUMMARY, json.dumps(known, indent=1) + '\n')
    print(f'wrote {into / SUMMARY}')
    if why_not:
        print(f'nothing was run: {why_not}')
    return int(any(known[part.name].get('status', 0) for part in todo))


def summary(into: Path) -> dict:
    """What is noted of each part so far."""
    try:
        return read_object(into / SUMMARY, 'summary')
    except JsonFileError:
        return {}


def run(part: Part, into: Path) -> dict:
    """Runs a part, and says what came of it."""
    words = [sys.executable, *(word.replace('{into}', str(into)) for word in part.command.split())]
    print(f'{part.name}: {part.shows}', flush=True)
    # A server needs no install.
    found = os.pathsep.join(filter(None, (str(ROOT), os.environ.get('PYTHONPATH'))))
    environment = {**os.environ, 'PYTHONUNBUFFERED': '1', 'PYTHONPATH': found}
    log = into / f'{part.name}.log'
    status, took_s = run_logged(words, log, LIMIT_S, cwd=ROOT, env=environment)
    outcome = {'status': ENDED if status is None else status, 'seconds': round(took_s, 1)}
    print(f'{part.name}: status {outcome["status"]} after {took_s:.0f} s', flush=True)
    return outcome


if __name__ == '__main__':
    sys.exit(exit_status('gpu', main))
