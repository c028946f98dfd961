"""Faults put into timing, decision and the pipeline, one at a time: how many of them the modules' own tests find.

Each mutant changes one operator, number, condition or statement, drawn by a fixed seed. A forked process imports the
changed module and runs the tests; a mutant is killed if one of them fails or does not end. Published are the survivors'
lines: a test that is missing, or a change that does not matter.

    python benchmarks/mutants.py --modules timing/part_bound runtime/mailbox
"""

from __future__ import annotations

import ast
import importlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_loader
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import pytest
from parts.harness import ROOT, Run, option, run_script

PACKAGE = 'deadline_perception'
MODULES = (
    'timing/calibration',
    'timing/recent_times',
    'timing/part_bound',
    'timing/time_model',
    'timing/path_bound',
    'decision/frontier',
    'decision/pass_policy',
    'decision/pass_quality',
    'decision/scene',
    'runtime/pipeline',
    'runtime/mailbox',
    'runtime/watchdog',
    'runtime/timed_inference',
)
# Loaded once; a fork has them for nothing.
LOADED_BEFORE = ('cv2', 'hypothesis', 'scipy.optimize', 'torch')
GOAL_SHARE = 0.85
MUTANTS, SEED = 25, 0  # of each module, and of the sample
# A mutant that takes longer than this many times the tests does not end.
LEAST_LIMIT_S, SLOWER = (20.0, 5.0)
_PAIRS = (
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Eq, ast.NotEq),
    (ast.Is, ast.IsNot),
    (ast.In, ast.NotIn),
    (ast.Add, ast.Sub),
    (ast.Mult, ast.Div),
    (ast.And, ast.Or),
)
SWAPPED = {ast.FloorDiv: ast.Mult} | dict(_PAIRS) | {there: here for here, there in _PAIRS}
SWAPPED_CALLS = {'min': 'max', 'max': 'min', 'any': 'all', 'all': 'any'}
UNTOUCHED = (ast.Raise, ast.Import, ast.ImportFrom)  # words of errors are no behaviour


class Site(NamedTuple):
    """One possible change of a tree: the line, the node that it makes, and where that goes."""

    line: int
    before: ast.AST
    after: ast.AST
    replace: Callable[[ast.AST], None]


def changed(node: ast.AST) -> Iterator[ast.AST]:
    """What a node may become; shares its children."""
    copy = ast.copy_location
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
        first = SWAPPED[type(node.ops[0])]()
        yield copy(ast.Compare(node.left, [first, *node.ops[1:]], node.comparators), node)
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPPED:
        yield copy(ast.BinOp(node.left, SWAPPED[type(node.op)](), node.right), node)
    elif isinstance(node, ast.AugAssign) and type(node.op) in SWAPPED:
        yield copy(ast.AugAssign(node.target, SWAPPED[type(node.op)](), node.value), node)
    elif isinstance(node, ast.BoolOp):
        yield copy(ast.BoolOp(SWAPPED[type(node.op)](), node.values), node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield copy(ast.Constant(not node.value), node)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield copy(ast.Constant(node.value + 1), node)
    elif isinstance(node, ast.Call) and getattr(node.func, 'id', '') in SWAPPED_CALLS:
        function = copy(ast.Name(SWAPPED_CALLS[node.func.id], ast.Load()), node)
        yield copy(ast.Call(function, node.args, node.keywords), node)
    elif isinstance(node, (ast.If, ast.While)):
        negated = copy(ast.UnaryOp(ast.Not(), node.test), node)
        yield copy(type(node)(negated, node.body, node.orelse), node)
    elif isinstance(node, ast.IfExp):
        yield copy(ast.IfExp(node.test, node.orelse, node.body), node)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield copy(ast.Pass(), node)
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
        yield copy(ast.Pass(), node)


def sites(tree: ast.AST) -> Iterator[Site]:
    """Every change, in the order of the tree; neither annotations nor decorators nor words of errors."""
    for field, value in ast.iter_fields(tree):
        if field in ('annotation', 'returns', 'decorator_list'):
            continue
        children = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
        for place, child in children:
            if not isinstance(child, ast.AST) or isinstance(child, UNTOUCHED):
                continue

            def replace(after: ast.AST, field: str = field, place: int | None = place) -> None:
                if place is None:
                    setattr(tree, field, after)
                else:
                    getattr(tree, field)[place] = after

            for after in changed(child):
                yield Site(child.lineno, child, after, replace)
            yield from sites(child)


def mutate(source: str, number: int) -> tuple[ast.Module, dict[str, object]]:
    """The tree with its so many-th change, and what that is: line, before and after."""
    tree = ast.parse(source)
    site = list(sites(tree))[number]
    before = ast.unparse(site.before).splitlines()[0]
    after = ast.unparse(ast.fix_missing_locations(site.after)).splitlines()[0]
    site.replace(site.after)
    return ast.fix_missing_locations(tree), {'line': site.line, 'before': before, 'after': after}


class _Mutated(SourceFileLoader):
    """Finds and loads one module from changed code."""

    def __init__(self, name: str, file: Path, code: CodeType) -> None:
        super().__init__(name, str(file))
        self.code = code

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Of the one module; others are found as always."""
        return spec_from_loader(name, self) if name == self.name else None

    def get_code(self, fullname: str) -> CodeType:
        """The changed code."""
        return self.code


def passes(module: str, code: CodeType, tests: list[str], limit_s: float) -> bool:
    """Whether the tests pass in a forked process that imports this code as the module, within so many seconds."""
    child = os.fork()
    if child == 0:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nowhere, number)
        for name in [name for name in sys.modules if name.startswith(f'{PACKAGE}.')]:
            del sys.modules[name]
        file = ROOT / PACKAGE / f'{module}.py'
        sys.meta_path.insert(0, _Mutated(f'{PACKAGE}.{module.replace("/", ".")}', file, code))
        status = 1
        try:
            status = int(pytest.main(['-x', '-q', '-n0', '-m', 'not slow', *tests]))
        finally:
            os._exit(status)
    until = time.monotonic() + limit_s
    ended = 0
    while not ended and time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.02)
    try:
        os.killpg(child, signal.SIGKILL)  # with what the tests have started
    except ProcessLookupError:
        pass
    if not ended:
        os.waitpid(child, 0)
    return bool(ended) and os.waitstatus_to_exitcode(status) == 0


def run_module(module: str, mutants: int, seed: int) -> dict[str, object]:
    """Runs the tests of one module on a sample of its mutants.

    Raises:
        ValueError: they fail on the module as it is.
    """
    file = ROOT / PACKAGE / f'{module}.py'
    source = file.read_text(encoding='utf-8')
    folder, name = module.split('/')
    tests = [str(ROOT / 'test' / folder / f'test_{name}.py')]
    begun_s = time.monotonic()
    if not passes(module, compile(source, file, 'exec'), tests, 600.0):
        raise ValueError(f'the tests of {module} fail on the module as it is, expected to pass')
    limit_s = max(LEAST_LIMIT_S, SLOWER * (time.monotonic() - begun_s))
    possible = len(list(sites(ast.parse(source))))
    drawn = sorted(random.Random(seed).sample(range(possible), min(mutants, possible)))
    survivors = []
    for number in drawn:
        tree, change = mutate(source, number)
        if passes(module, compile(tree, file, 'exec'), tests, limit_s):
            survivors.append(change)
    killed = len(drawn) - len(survivors)
    print(f'{module}: {killed} of {len(drawn)} killed', flush=True)
    for change in survivors:
        print(f'  line {change["line"]}: {change["before"]}  ->  {change["after"]}', flush=True)
    return {
        'module': module,
        'possible': possible,
        'mutants': len(drawn),
        'killed': killed,
        'survivors': survivors,
    }


def main(run: Run) -> None:
    os.chdir(ROOT)
    for name in LOADED_BEFORE:
        importlib.import_module(name)
    mutants = 3 if run.quick else MUTANTS
    found = [run_module(module, mutants, SEED) for module in run.args.modules]
    killed, drawn = (sum(row[name] for row in found) for name in ('killed', 'mutants'))
    run.goal('killed mutants', killed / drawn, least=GOAL_SHARE)
    run.write(seed=SEED, mutants=drawn, killed=killed, modules=found)


if __name__ == '__main__':
    run_script(
        main,
        {'--modules': option(MODULES, nargs='+', choices=MODULES, metavar='MODULE')},
        quick='3 mutants of each module',
    )
