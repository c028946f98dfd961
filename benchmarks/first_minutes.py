"""What a newcomer waits for: from a fresh clone to the report of the demo, and to an installed package; and what the
first lines of the README answer on a photograph.

    python benchmarks/first_minutes.py [--runs 3] [--phases demo install] [--photographs 20]
    python benchmarks/first_minutes.py --phases --out benchmarks/results/first_answers.json   # the latter alone
    python benchmarks/first_minutes.py --runs 1 --phases demo install --photographs 0 --out .../installed.json

Clones the last commit into a temporary folder, with caches of its own, so that nothing that was prepared before is
found; what pip's and uv's own caches hold is used, and said. Each phase is the command that the README names, and its
output goes to out/first_minutes/. `install` is `pip install .` into an empty environment of Python. How large the
environments of it and of `make demo` are is measured, as they lie on the disk.

Each photograph is answered by a process of its own: of ten, four on an empty cache, so that segments are prepared
first, and six where segments are prepared and no latency profile is kept; in turn beside a busy program for each core
and without. A start is right where the first answer has the two cars that a person sees at once, each later one is in
time, and no image is refused.

Takes some 5 minutes a run, and 25 for 20 photographs; writes results/first_minutes.json.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from statistics import median

import numpy as np
from parts.harness import ROOT, Run, option, run_logged, run_script

from deadline_perception.core.detections import pairwise_iou
from deadline_perception.core.device import read_device_facts
from deadline_perception.extras.contention.load import busy_programs

LOGS = ROOT / 'out' / 'first_minutes'
PHASES = 'demo', 'install'
INSTALL = f'{sys.executable} -m venv installed && installed/bin/python -m pip install -q ./clone'
ENVIRONMENTS = {'demo': 'clone/.venv', 'install': 'installed'}  # that a phase makes
GOAL_INSTALLED_MB = 1000.0
GOAL_REPORT_S = 180.0  # from the clone to the report
PHOTOGRAPH = ROOT / 'examples' / 'street.jpg'
CARS_XYXY_PX = ((0, 144, 142, 245), (319, 191, 381, 229))  # as a person sees them in it
BUDGET_MS = 100.0
SAME_IOU = 0.5
LATER_ANSWERS = 9
START_LIMIT_S = 900.0  # where others keep all cores busy; 60 to 90 s on two free ones
ON_EMPTY_CACHE = 4  # of ten starts; the others find prepared segments
_FIRST_LINES = """
import json, sys, time
begun_s = time.monotonic()
import cv2
from deadline_perception import DeadlineDetector

file, budget_ms, later = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
image_bgr = cv2.imread(file)
answers = []
with DeadlineDetector('street') as detector:
    ready_s = time.monotonic() - begun_s
    for _ in range(1 + later):
        answer = detector.detect(image_bgr, budget_ms)
        cars = [found.box_xyxy_px.tolist() for found in answer if found.name == 'vehicle']
        told = {'in_time': answer.in_time, 'latency_ms': round(answer.latency_ms, 1), 'path': answer.path}
        answers.append({**told, 'feasible': answer.feasible, 'cars': cars})
print(json.dumps({'ready_s': round(ready_s, 1), 'answers': answers}))
"""


def run_once(phases: list[str], number: int) -> dict[str, dict]:
    """Time and status of each phase in a clone of its own."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ('VIRTUAL_ENV', 'MAKEFLAGS')
        }
        environment['XDG_CACHE_HOME'] = str(place / 'cache')
        # Packages that were fetched before stay at hand: what is measured is this project and not the network.
        environment.setdefault('UV_CACHE_DIR', str(Path('~/.cache/uv').expanduser()))
        environment.setdefault('PIP_CACHE_DIR', str(Path('~/.cache/pip').expanduser()))
        for name, command in (
            ('clone', ['git', 'clone', '--quiet', str(ROOT), 'clone']),
            ('demo', ['make', '-C', 'clone', 'demo']),
            ('install', ['sh', '-c', INSTALL]),
        ):
            if name not in ('clone', *phases):
                continue
            log = LOGS / f'{number}_{name}.log'
            status, took_s = run_logged(command, log, cwd=place, env=environment)
            found[name] = {'took_s': round(took_s, 1), 'status': status}
            print(f'run {number}, {name}: {found[name]}', flush=True)
            if status:
                break
            if name in ENVIRONMENTS:
                found[name]['installed_mb'] = round(size_mb(place / ENVIRONMENTS[name]))
    return found


def size_mb(folder: Path) -> float:
    """What a folder takes on the disk, in 10^6 bytes; a file with several names counts once."""
    found = [place.lstat() for place in folder.rglob('*')]
    return sum({state.st_ino: 512 * state.st_blocks for state in found}.values()) / 1e6


def has_cars(answer: dict) -> bool:
    """Each of the two cars is among what was found."""
    found = np.array(answer['cars']).reshape(-1, 4)
    overlaps = pairwise_iou(np.array(CARS_XYXY_PX, float), found)
    return bool((overlaps.max(1, initial=0.0) >= SAME_IOU).all())


def start_once(cache: Path, log: Path, is_busy: bool) -> dict:
    """The first lines of the README in a process of its own, with a cache of its own, and whether they are right."""
    words = (sys.executable, '-c', _FIRST_LINES, PHOTOGRAPH, BUDGET_MS, LATER_ANSWERS)
    environment = {**os.environ, 'XDG_CACHE_HOME': str(cache)}
    cores = read_device_facts('cpu').cores
    load = round(os.getloadavg()[0], 1)
    with busy_programs(cores) if is_busy else nullcontext():
        status, _ = run_logged([*map(str, words)], log, START_LIMIT_S, env=environment)
    lines = log.read_text(encoding='utf-8', errors='replace').splitlines()
    told = {'is_busy': is_busy, 'load_before': load, 'status': status}
    if status != 0:
        return {**told, 'right': False}
    said = json.loads(lines[-1])
    first, *later = said['answers']
    in_time = all(answer['in_time'] for answer in later)
    return {
        **told,
        'ready_s': said['ready_s'],
        'answers': [{**answer, 'cars': has_cars(answer)} for answer in said['answers']],
        'right': has_cars(first) and in_time and all(answer['path'] for answer in said['answers']),
    }


def answer_photographs(count: int) -> Iterator[dict]:
    """See the module: what each start found, in their order."""
    with tempfile.TemporaryDirectory() as name:
        prepared: Path | None = None
        for number in range(count):
            cache = Path(name) / str(number)
            is_empty = prepared is None or number % 10 < ON_EMPTY_CACHE
            if not is_empty:
                shutil.copytree(prepared, cache)
                shutil.rmtree(cache / 'deadline_perception' / 'profiles')
            start = start_once(cache, LOGS / f'photograph_{number}.log', number % 2 == 1)
            yield {'cache': 'empty' if is_empty else 'prepared, not measured', **start}
            if is_empty and start['status'] == 0:
                prepared = cache
            elif cache.exists():
                shutil.rmtree(cache)


def until_report_s(run: dict[str, dict]) -> float:
    """From the beginning of the clone to the end of the demo."""
    return sum(run[name]['took_s'] for name in ('clone', 'demo'))


def passed(runs: list[dict[str, dict]], name: str) -> list[dict[str, dict]]:
    """The runs in which a phase came to its end; one that fails ends early, and says nothing of how long it takes."""
    return [one for one in runs if one.get(name, {}).get('status') == 0]


def main(run: Run) -> int:
    """Measures; returns 1 where a phase failed."""
    args = run.args
    LOGS.mkdir(parents=True, exist_ok=True)
    phases = [phase for phase in PHASES if phase in args.phases]
    runs = [run_once(phases, number) for number in range(1, args.runs + 1) if phases]
    facts = read_device_facts('cpu')
    content = {'device': str(facts), 'cores': facts.cores, 'runs': runs}
    photographs = content['photographs'] = []
    for start in answer_photographs(args.photographs):
        photographs.append(start)
        first = start.get('answers', [{}])[0]
        print(
            f'{start["cache"]}, busy: {start["is_busy"]}, right: {start["right"]}; first {first}',
            flush=True,
        )
        run.write(**content)  # what there is, should somebody end it
    if photographs:
        right = sum(start['right'] for start in photographs)
        run.goal(f'of {len(photographs)} starts right', right, least=len(photographs))
    reported = passed(runs, 'demo')
    if reported:
        content['until_report_s'] = round(median(map(until_report_s, reported)), 1)
        run.goal('s from clone to report', content['until_report_s'], most=GOAL_REPORT_S)
    installed = passed(runs, 'install')
    if installed:
        run.goal(
            'MB of `pip install .`',
            installed[-1]['install']['installed_mb'],
            most=GOAL_INSTALLED_MB,
        )
    run.write(**content)
    return int(any(phase['status'] for one in runs for phase in one.values()))


if __name__ == '__main__':
    run_script(
        main,
        {
            '--runs': option(3, least=1),
            '--phases': option(list(PHASES), nargs='*', choices=PHASES),
            '--photographs': option(20, least=0),
        },
    )
