"""A benchmark of two checkouts, in turn on the same machine: is the newer one slower?

    git worktree add ../old COMMIT && make -C ../old setup
    python benchmarks/against.py ../old decision_cost.py [--rounds 3] [-- ARGUMENTS OF THE BENCHMARK]

Runs the script of the other checkout and that of this one in turn, so that both meet the same phases of the machine,
and compares every number that both write, by the medians of the rounds. Prints a table and writes
results/against_SCRIPT.json; the script's own result file is left as it was.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from deadline_perception.errors import DeadlinePerceptionError
from deadline_perception.latency.device import read_device_facts
from deadline_perception.tools.command_line import exit_status
from deadline_perception.tools.demo import machine_facts
from deadline_perception.tools.node_run import free_domain

HERE = Path(__file__).resolve().parent


def measure(checkout: Path, script: str, arguments: list[str]) -> dict[str, float]:
    """Runs a benchmark of a checkout in its own environment, and returns the numbers that it wrote, by their place.

    Raises:
        DeadlinePerceptionError: the checkout has no such benchmark, or it failed.
    """
    python, file = checkout / '.venv/bin/python', checkout / 'benchmarks' / script
    result = checkout / 'benchmarks/results' / Path(script).with_suffix('.json').name
    for needed in (python, file):
        if not needed.exists():
            raise DeadlinePerceptionError(f'{needed} is missing, expected a checkout after `make setup`')
    kept = result.read_bytes() if result.exists() else None
    try:
        result.unlink(missing_ok=True)
        # Each has latency profiles of its own, for their formats may differ, and nothing of what the libraries of this
        # process have put into its environment: it would lead the other checkout to the message types of this one.
        inherited = {name: os.environ[name] for name in ('PATH', 'HOME', 'LANG', 'TMPDIR') if name in os.environ}
        done = subprocess.run(
            [python, file, *arguments], cwd=checkout, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=inherited | {'XDG_CACHE_HOME': str(checkout / 'out/cache'), 'ROS_DOMAIN_ID': str(free_domain())})
        if done.returncode or not result.exists():
            raise DeadlinePerceptionError(f'{file} ended with {done.returncode} and '
                                          f'{"a" if result.exists() else "no"} result: {done.stdout[-300:]}')
        return dict(numbers(json.loads(result.read_text(encoding='utf-8'))))
    finally:
        if kept is not None:
            result.write_bytes(kept)
        else:
            result.unlink(missing_ok=True)


def numbers(content: object, place: str = '') -> Iterator[tuple[str, float]]:
    """Every number in a JSON value with its place, such as `rows/3 raw/overhead_ms/p50`."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from numbers(value, f'{place}/{key}' if place else key)
    elif isinstance(content, list):
        for index, value in enumerate(content):
            words = [word for word in value.values() if isinstance(word, str)] if isinstance(value, dict) else []
            yield from numbers(value, f'{place}/{" ".join((str(index), *words))}')
    elif isinstance(content, float):
        yield place, content


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('checkout', type=Path, help='the other checkout, with its environment made')
    parser.add_argument('script', help='name of a benchmark that both have, such as decision_cost.py')
    parser.add_argument('--rounds', type=int, default=3, help='times that each is run')
    parser.add_argument('--shown', default='p50|_us$', help='regular expression of the places to show; all are written')
    words = sys.argv[1:]
    cut = words.index('--') if '--' in words else len(words)
    args, arguments = parser.parse_args(words[:cut]), words[cut + 1:]
    if args.rounds < 1:
        parser.error(f'--rounds is {args.rounds}, expected at least 1')
    rounds = {'other': [], 'this': []}
    for number in range(args.rounds):
        for name, checkout in (('other', args.checkout.resolve()), ('this', HERE.parent)):
            rounds[name].append(measure(checkout, args.script, arguments))
            print(f'round {number + 1} of {args.rounds}, {name}: {len(rounds[name][-1])} numbers', flush=True)
    shared = [place for place in rounds['this'][0] if all(place in found for each in rounds.values() for found in each)]
    rows = []
    for place in shared:
        other, this = ([found[place] for found in rounds[name]] for name in ('other', 'this'))
        middle = statistics.median(other)
        rows.append({'place': place, 'other': other, 'this': this,
                     'ratio': statistics.median(this) / middle if middle else None})
        if re.search(args.shown, place):
            print(f'{place:<70} {middle:>10.3f} -> {statistics.median(this):>10.3f}'
                  + (f'   {rows[-1]["ratio"]:.2f}' if middle else ''))
    commit = subprocess.run(['git', '-C', args.checkout, 'rev-parse', 'HEAD'], capture_output=True, text=True).stdout
    out = HERE / 'results' / f'against_{Path(args.script).stem}.json'
    out.write_text(json.dumps({'date': date.today().isoformat(), 'machine': machine_facts(read_device_facts('cpu')),
                               'other_commit': commit.strip(), 'arguments': arguments, 'rows': rows},
                              indent=1) + '\n', encoding='utf-8')
    print(f'wrote {out}')


if __name__ == '__main__':
    sys.exit(exit_status(Path(__file__).name, main))
