"""Every benchmark is there, in its document, and keeps what was published when a run was quick."""

import ast
import functools
import json
import re
import symtable
from pathlib import Path


def test_a_trace_sees_the_calls_of_every_thread_that_an_image_passes(load_benchmark):
    calls = min(load_benchmark('image_trace').follow(5), key=len)  # busy machines decide anew
    seen = {(file, name.split('.')[-1]) for file, name in calls}
    assert {
        ('runtime/detection_stream.py', 'detect'),
        ('runtime/pipeline.py', 'process'),
        ('runtime/timed_inference.py', '_advance'),
        ('timing/time_model.py', 'observe'),
    } <= seen
    assert len(calls) < 520  # of them 33 read the clock; 789 before anybody counted
    assert len(load_benchmark('image_trace').until_answer(calls)) < 300


def test_every_benchmark_is_in_the_table_that_is_run(load_benchmark, repository):
    found = load_benchmark('all').benchmarks()
    listed = {benchmark.script: benchmark for benchmark in found}
    assert len(listed) == len(found)
    assert all((repository / benchmark.command).is_file() for benchmark in found)
    assert listed['tracking'].has_quick and not listed['faults'].has_quick
    is_program = re.compile(r'^RESULTS = |^    run_script\(', re.MULTILINE)
    scripts = *repository.glob('benchmarks/*.py'), *repository.glob('research/*/*.py')
    programs = {file.stem for file in scripts if is_program.search(file.read_text('utf-8'))}
    # The first runs these tests, the other reads what others wrote.
    assert programs - {*listed} == {'first_minutes', 'results_page'}


def test_results_of_a_quick_run_never_replace_published_ones(load_benchmark, monkeypatch, tmp_path):
    harness = load_benchmark('harness')
    monkeypatch.setattr(harness, 'ROOT', tmp_path)
    for quick, folder in ((True, 'out/benchmarks'), (False, 'benchmarks/results')):
        run = harness.Run('name', None, quick)
        assert run.goal('share', 0.05, most=0.1) and not run.goal('quality', None, least=0.0)
        run.write(rows=[1])
        found = json.loads((tmp_path / folder / 'name.json').read_text())
        assert found['rows'] == [1] and found['goals'][0]['met']
        assert {'date', 'device', 'load_before'} <= set(found)


def test_what_a_script_takes_from_the_package_and_from_those_beside_it_is_there(repository):
    package = _modules(repository / 'deadline_perception', repository)
    for folder in (repository / 'benchmarks', *repository.glob('research/*')):
        scripts = _modules(folder, folder)
        known = package | scripts
        for name, file in scripts.items():
            for node in ast.walk(ast.parse(file.read_text('utf-8'))):
                if isinstance(node, ast.ImportFrom) and node.module in known:
                    missing = {alias.name for alias in node.names} - defined(known[node.module])
                    missing = {one for one in missing if f'{node.module}.{one}' not in known}
                    assert not missing, f'{folder.name}/{name}.py, of {node.module}'


def _modules(folder: Path, root: Path) -> dict[str, Path]:
    """A folder's modules, by the names that they have from `root` on."""
    return {
        '.'.join(file.relative_to(root).with_suffix('').parts).removesuffix('.__init__'): file
        for file in folder.rglob('*.py')
    }


@functools.cache
def defined(file: Path) -> set[str]:
    """Names that a module binds at its top."""
    names = symtable.symtable(file.read_text('utf-8'), str(file), 'exec').get_symbols()
    return {one.get_name() for one in names if one.is_assigned() or one.is_imported()}


def test_every_test_and_script_that_make_gpu_runs_is_there(load_benchmark, repository):
    every = load_benchmark('all').benchmarks(on_gpu=True)
    words = {word for benchmark in every for word in benchmark.command.split()}
    files = [word for word in words if word.startswith(('test/', 'research/'))]
    assert files and all((repository / file).exists() for file in files)
