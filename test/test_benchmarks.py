"""What the benchmarks make of their measurements decides what is published; here with runs made up by hand."""

from __future__ import annotations

import ast
import json
import random
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from recorded_run import NAMES, SECOND_NS, write_drive

from deadline_perception.core.detections import Detections
from deadline_perception.core.records import Frame, Sequence
from deadline_perception.decision.policy import Choice
from deadline_perception.engines.eager import Eager
from deadline_perception.extras.report.recorded_bag import read_recording
from deadline_perception.networks.multi_path.declaration import multi_path_space
from deadline_perception.timing.path_bound import SegmentForecast

SPACE = multi_path_space(
    skips_per_stage=(1,), widths=(1.0,), pyramid_widths=(1.0,), proposals=range(1, 11), heads=1
)
FIRST, SECOND = SPACE.parse('s0-w1.00-p10-h0'), SPACE.parse('s1-w1.00-p10-h0')


@pytest.fixture(scope='module')
def path_bounds(load_benchmark):
    return load_benchmark('path_bounds')


def test_forecast_error_is_taken_over_paths(path_bounds):
    events = [
        path_bounds.Frame(path, ms, 1, 1.0)
        for path, ms in ((FIRST, 100.0), (FIRST, 100.0), (SECOND, 50.0))
    ]
    forecast = SimpleNamespace(forecast_ms=lambda path: {FIRST: 110.0, SECOND: 40.0}[path])
    error = path_bounds.forecast_error(forecast, events)
    assert (error['median'], error['max']) == (pytest.approx(0.15), pytest.approx(0.2))


def test_forecast_error_between_paths_is_blind_to_phases_of_the_machine(path_bounds):
    paths = [FIRST.replace(proposals=proposals) for proposals in range(1, 11)]
    forecast = SimpleNamespace(forecast_ms=lambda path: 10.0 * path['proposals'])
    frames = [
        path_bounds.Frame(
            path, 10.0 * path['proposals'] * phase * (1.2 if path == paths[0] else 1.0), 1, 1.0
        )
        for phase in (1.0, 1.5, 1.5)
        for path in paths
    ]
    error = path_bounds.forecast_error(forecast, [path_bounds.Look(1.0, 1.0), *frames])
    assert error['median'] == pytest.approx(1.0 - 1.0 / 1.5)
    assert error['between_paths_median'] == pytest.approx(0.0)
    assert error['between_paths_p90'] == pytest.approx(0.1 * 0.2)  # one path of ten is off by 20 %


def test_excess_of_a_bound_is_told_by_what_causes_it(path_bounds):
    rng = random.Random(0)
    forecast = SimpleNamespace(
        forecast_ms=lambda path: 10.0, residual_quantile=lambda probability: 0.1
    )
    frames = [
        path_bounds.Frame(path, 10.0 * off * rng.uniform(0.99, 1.01), 1, 1.0)
        for _ in range(1000)
        for path, off in ((FIRST, 1.0), (SECOND, 1.2))
    ]
    excess = path_bounds.excess(forecast, frames, np.full(len(frames), 2.0))
    assert excess['spread'] == pytest.approx(1.015, abs=0.01)
    assert excess['paths'] == pytest.approx(1.2, abs=0.02)  # one path is off by 20 %
    assert np.prod(list(excess.values())) == pytest.approx(2.0)


def test_summary_of_four_frames(path_bounds):
    rows = np.array(
        [
            [1.0, 0.9, 1.1, 1.0, 1.2, 1.3],
            [1.0, 1.0, 1.2, 0.8, 0.9, 1.1],
            [2.0, 1.1, 0.9, 1.0, 1.2, 0.9],
            [2.0, 1.0, 1.3, 1.0, 1.1, 1.1],
        ]
    )
    found = path_bounds.summary(rows)
    assert (found['frames'], found['median_slowdown']) == (4, 1.5)
    assert (
        found['whole']['coverage']
        == found['rest']['coverage']
        == found['rest_by_whole']['coverage']
        == 0.75
    )
    assert found['whole']['median_error'] == pytest.approx(0.05)
    assert found['whole']['median_tightness'] == pytest.approx(1.15)
    assert found['whole']['miss_ratio_upper_95'] == pytest.approx(0.7514, abs=1e-3)


def test_loop_around_a_network_that_does_nothing_decides_at_every_operator(load_benchmark):
    decision_cost = load_benchmark('decision_cost')
    forecast = SegmentForecast(
        SPACE, {key: 1.0 for path in (FIRST, SECOND) for key in SPACE.keys(path)}
    )
    asked = []

    class Policy:
        """Chooses the first path always, and notes when it is asked."""

        def plan(self, remaining_ms, factor, likely=1.0):
            asked.append('plan')
            return Choice(path=FIRST, feasible=True, forecast_ms=1.0, bound_ms=factor, quality=0.5)

        def redecide(self, path, segment, remaining_ms, factor, elapsed_ms=0.0, likely=1.0):
            asked.append(SPACE.segments[segment].operator)
            return Choice(path=FIRST, feasible=True, forecast_ms=1.0, bound_ms=factor, quality=0.5)

        def observe(self, latency_ms, remaining_ms):
            asked.append('observe')

    times_us = decision_cost.time_loop(Policy(), SPACE, forecast, 100.0, 2, random.Random(0), None)
    operators = [segment.operator for segment in SPACE.segments if segment.operator]
    assert asked == ['plan', *operators, 'observe'] * 2
    assert len(times_us) == 2 and min(times_us) > 0.0


def test_a_trace_sees_the_calls_of_every_thread_that_an_image_passes(load_benchmark):
    calls = min(
        load_benchmark('image_trace').follow(5), key=len
    )  # a busy machine has some images decided again
    seen = {(file, name.split('.')[-1]) for file, name in calls}
    assert {
        ('runtime/detection_stream.py', 'detect'),
        ('runtime/pipeline.py', 'process'),
        ('runtime/timed_inference.py', '_decide'),
        ('timing/time_model.py', 'observe'),
    } <= seen
    assert len(calls) < 700  # of them 79 read the clock; 789 before anybody counted


def test_output_delivered_last_stands_in_for_frames_that_missed(load_benchmark):
    scores = load_benchmark('deadline_scores')
    boxes = [Detections([[0, 0, index + 1, 1]], [0.5], [0]) for index in range(3)]
    runs = [
        SimpleNamespace(in_time=in_time, detections=found)
        for in_time, found in (
            (False, None),
            (True, boxes[0]),
            (False, boxes[1]),
            (False, None),
            (True, boxes[2]),
        )
    ]
    in_time = scores.delivered(runs, late_too=False)
    assert len(in_time[0]) == 0
    assert in_time[1:] == [boxes[0], boxes[0], boxes[0], boxes[2]]
    assert scores.delivered(runs, late_too=True)[1:] == [boxes[0], boxes[1], boxes[1], boxes[2]]


def test_a_static_table_takes_the_best_path_that_fits_and_else_the_shortest(load_benchmark):
    static_table = load_benchmark('static_table')
    space = multi_path_space(
        skips_per_stage=(0,), widths=(1.0,), pyramid_widths=(1.0,), proposals=(1, 2, 3), heads=1
    )
    paths = list(space)
    p99_ms = dict(zip(paths, (10.0, 20.0, 40.0)))
    quality = SimpleNamespace(quality=lambda path: {1: 0.3, 2: 0.5, 3: 0.6}[path['proposals']])
    forecast = SimpleNamespace(forecast_ms=lambda path, segment=0: p99_ms[path] / 2)
    table = static_table.StaticTable(p99_ms, space, forecast, quality)
    chosen = [
        table.plan(left_ms, factor) for left_ms, factor in ((39.0, 1.0), (40.0, 9.0), (5.0, 1.0))
    ]
    assert [(choice.path['proposals'], choice.feasible, choice.bound_ms) for choice in chosen] == [
        (2, True, 20.0),
        (3, True, 40.0),
        (1, False, 10.0),
    ]
    assert table.redecide(chosen[1].path, 1, 0.0, 1.0).path == chosen[1].path
    assert static_table.best_fixed(p99_ms, quality, [15.0, 25.0, 25.0, 45.0])['proposals'] == 2
    assert static_table.best_fixed(p99_ms, quality, [45.0])['proposals'] == 3


@pytest.fixture(scope='module')
def deadline_plot(load_benchmark):
    return load_benchmark('deadline_plot')


def load(frames: int, ap: float | None) -> dict:
    """Figures of a load as deadlines.json holds them, of as many policies as are drawn."""
    possible = {'frames': frames, 'misses': 1, 'ratio': 1 / frames}
    policy = {
        'possible': possible,
        'ap': ap,
        'ap_interval_95': [None if ap is None else 0.1, None],
        'by_budget': [{'to_ms': to_ms, 'ap': ap} for to_ms in (100.0, 250.0, 250.0)],
        'trace': [[100.0, 90.0], [250.0, 260.0], [250.0, 120.0]],
    }
    return {
        'frames': frames,
        'policies': dict.fromkeys(
            ('frontier', 'thresholds', 'oblivious', 'reactive_1', 'median clairvoyant'), policy
        ),
        'long_part': {
            'frontier': {'frames': 9, 'possible': {'frames': 0, 'misses': 0, 'ratio': None}}
        },
    }


def test_draws_a_column_for_each_load_also_where_nothing_is_known(deadline_plot, tmp_path):
    result = {'date': 'today', 'device': 'some processor', 'data': 'a drive'}
    for loads in (
        {'alone': load(3, 0.25)},
        {'alone': load(3, 0.25), 'beside 2 co-runners': load(3, None)},
    ):
        deadline_plot.draw({**result, 'loads': loads}, tmp_path / 'drawn.png')
        assert cv2.imread(str(tmp_path / 'drawn.png')).shape == (1280, 600 * len(loads), 3)


def test_picture_of_a_demo_is_small_and_not_empty(tmp_path, load_benchmark):
    write_drive(tmp_path / 'run', frames=60)
    source = Sequence(
        'plain',
        NAMES,
        tuple(
            Frame(str(index), index * SECOND_NS // 10, lambda: np.full((380, 640, 3), 90, np.uint8))
            for index in range(60)
        ),
    )
    picture = tmp_path / 'demo.png'
    load_benchmark('demo_picture').draw(read_recording(tmp_path / 'run'), source, picture)
    assert picture.stat().st_size < 200_000
    assert cv2.imread(str(picture))[:330, 60:].std() > 40  # frames on top, on white


@pytest.fixture(scope='module')
def engines(load_benchmark):
    pytest.importorskip('openvino')
    return load_benchmark('engines')


def test_engines_lose_what_they_reach_less_than_the_eager_one(engines):
    points = {'a': {'eager': 40.0, 'openvino': 39.5}, 'b': {'eager': 30.0, 'openvino': 30.3}}
    assert engines.loss(points, 'openvino') == (pytest.approx(0.1), pytest.approx(0.5))


def test_engines_take_turns_on_every_path_and_the_first_round_is_dropped(engines, tiny_network):
    space, rounds = tiny_network.path_space, []
    image = np.zeros((64, 96, 3), np.uint8)
    times = engines.measure_times(
        tiny_network,
        {'one': Eager(), 'other': Eager()},
        [space.smallest, space.largest],
        [image],
        2,
        lambda: rounds.append(1),
    )
    assert {len(found) for found in times.values()} == {2} and len(times) == 4 and len(rounds) == 3
    smallest, largest = (
        engines.operations(tiny_network, image, path) for path in (space.smallest, space.largest)
    )
    assert smallest < largest


def test_the_matrix_product_runs_in_8_bit(engines, tmp_path, monkeypatch):
    from deadline_perception.core.device import read_device_facts

    monkeypatch.setattr(engines, 'PRODUCT_ROWS', 256)
    monkeypatch.setattr(engines, 'PRODUCT_SIDE', 512)
    product, call = engines.matrix_product(read_device_facts('cpu'), tmp_path)
    (found,) = product(call.arrays)
    assert np.square(found - call.outputs[0].numpy()).mean() < 0.01 * float(call.outputs[0].var())


def test_every_benchmark_of_the_list_is_there_and_in_its_document(load_benchmark):
    every = load_benchmark('all')
    folder = Path(every.__file__).parent
    root = folder.parent
    listed = {benchmark.script for benchmark in every.BENCHMARKS}
    assert len(listed) == len(every.BENCHMARKS)
    for benchmark in every.BENCHMARKS:
        text = (root / benchmark.file).read_text(encoding='utf-8')
        assert bool(re.search(r"'--quick'|\bquick=f?'", text)) == benchmark.quick, benchmark.script
        for option in (*benchmark.arguments, *['--profile'] * benchmark.profiled):
            assert not option.startswith('--') or f"'{option}'" in text, (benchmark.script, option)
    document = (folder / 'README.md').read_text(encoding='utf-8')
    linked = set(re.findall(r'\(\.\./(\w+/[\w/]+\.py)\)', document))
    assert linked == {benchmark.file for benchmark in every.BENCHMARKS}
    programs = {
        file.stem
        for file in (*folder.glob('*.py'), *root.glob('research/*/*.py'))
        if re.search(
            r'^RESULTS = |^    run_script\(', file.read_text(encoding='utf-8'), re.MULTILINE
        )
    }
    # The first runs these tests, one needs a GPU, one reads what others wrote.
    assert programs - listed == {'first_minutes', 'gpu_engines', 'results_page'}


def test_a_goal_is_met_or_missed_by_its_figure_and_what_is_unknown_meets_nothing(
    load_benchmark, capsys
):
    run = load_benchmark('harness').Run('name', None)
    assert not run.goal('share', 0.2, most=0.1) and run.goal('coverage', 0.99, least=0.99)
    assert not run.goal('quality', None, least=0.0)
    assert 'goal: share at most 0.1: 0.2, missed' in capsys.readouterr().out
    assert [goal['met'] for goal in run.goals] == [False, True, False]


def test_results_of_a_quick_run_never_replace_published_ones(load_benchmark, monkeypatch, tmp_path):
    harness = load_benchmark('harness')
    monkeypatch.setattr(harness, 'ROOT', tmp_path)
    for quick, folder in ((True, 'out/benchmarks'), (False, 'benchmarks/results')):
        run = harness.Run('name', None, quick)
        run.goal('share', 0.05, most=0.1)
        run.write(rows=[1])
        found = json.loads((tmp_path / folder / 'name.json').read_text())
        assert (
            found['rows'] == [1]
            and found['goals'][0]['met']
            and {'date', 'device', 'load_before'} <= set(found)
        )


def test_kinds_take_turns_in_every_round_and_quantiles_of_nothing_are_none(load_benchmark):
    harness = load_benchmark('harness')
    taken = list(harness.turns('abc', 4))
    assert [sorted(kind for number, kind in taken if number == at) for at in range(4)] == [
        ['a', 'b', 'c']
    ] * 4
    assert taken == list(harness.turns('abc', 4)) != sorted(taken)
    assert harness.quantiles([1.0, 2.0, 3.0], 'p50', 'max', 'mean') == {
        'p50': 2.0,
        'max': 3.0,
        'mean': 2.0,
    }
    assert harness.quantiles([], 'p50', 'p99') == {'p50': None, 'p99': None}


def test_a_benchmark_that_fails_or_takes_too_long_is_told(load_benchmark, monkeypatch, tmp_path):
    every = load_benchmark('all')
    monkeypatch.setattr(every, 'ROOT', tmp_path)
    (tmp_path / 'benchmarks').mkdir()
    for name, text in (
        ('good', 'print("fine")'),
        ('bad', 'raise SystemExit(3)'),
        ('slow', 'import time; time.sleep(60)'),
    ):
        (tmp_path / 'benchmarks' / f'{name}.py').write_text(text)
    log = tmp_path / 'log'
    assert (
        every.run(every.Benchmark('good', 1, ''), [], log)[0] == 'done'
        and log.read_text() == 'fine\n'
    )
    assert every.run(every.Benchmark('bad', 1, ''), [], log)[0] == 'failed with 3'
    assert (
        every.run(every.Benchmark('slow', 0.002, ''), [], log)[0] == 'ended after 2 times its time'
    )


def test_a_quick_run_of_training_is_not_gone_on_from(load_benchmark):
    folder_of_runs = load_benchmark('training_gains').folder_of_runs
    assert folder_of_runs(Path('runs'), False) == Path('runs') != folder_of_runs(Path('runs'), True)


def test_a_demo_that_failed_says_nothing_of_how_long_one_takes(load_benchmark):
    first_minutes = load_benchmark('first_minutes')
    whole = {'clone': {'took_s': 2.0, 'status': 0}, 'demo': {'took_s': 90.0, 'status': 0}}
    runs = [whole, {**whole, 'demo': {'took_s': 1.0, 'status': 1}}, {'clone': whole['clone']}]
    assert (
        first_minutes.passed(runs, 'demo') == [whole] and first_minutes.passed(runs, 'test') == []
    )


def test_bounds_on_a_new_device_are_judged_whatever_the_number_of_frames(
    load_benchmark, monkeypatch
):
    new_device = load_benchmark('new_device')
    monkeypatch.setattr(new_device, 'forecast_error', lambda forecast, events: {})
    monkeypatch.setattr(
        new_device,
        'Bounds',
        lambda forecast: SimpleNamespace(follow=lambda events: np.full((1000, 6), 1.1)),
    )
    found = new_device._judge(None, [])
    assert found['coverage_1000'] == found['coverage_all'] == 1.0 and found[
        'tightness_last'
    ] == pytest.approx(1.1)


def test_what_a_script_takes_from_the_one_beside_it_is_there(repository):
    for folder in (repository / 'benchmarks', *repository.glob('research/*')):
        trees = {
            '.'.join(file.relative_to(folder).with_suffix('').parts): ast.parse(
                file.read_text(encoding='utf-8')
            )
            for file in folder.rglob('*.py')
        }
        for name, tree in trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module in trees:
                    missing = {alias.name for alias in node.names} - defined(trees[node.module])
                    assert not missing, (
                        f'{folder.name}/{name}.py takes {missing} from {node.module}.py'
                    )


def defined(tree: ast.Module) -> set[str]:
    """Names that a module binds at its top."""
    names = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    names |= {
        target.id
        for node in tree.body
        for target in ast.walk(node)
        if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)
    }
    return names | {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }


def test_size_counts_lines_of_code_tokens_and_parts(load_benchmark, tmp_path):
    size = load_benchmark('size')
    (tmp_path / 'deadline_perception' / 'inner').mkdir(parents=True)
    (tmp_path / 'deadline_perception' / '__init__.py').touch()
    (tmp_path / 'deadline_perception' / 'inner' / '__init__.py').write_text('"""Words."""\n')
    (tmp_path / 'deadline_perception' / 'one.py').write_text(
        '"""What it is.\n\nMore.\n"""\n\n\ndef twice(number):\n    """Words."""\n    return 2 * number  # why\n'
    )
    (tmp_path / 'docs').mkdir()
    (tmp_path / 'docs' / 'page.md').write_text('# Page\n\nWords.\n')
    (tmp_path / 'docs' / 'untracked.md').write_text('not counted\n')
    for command in (['init', '-q'], ['add', 'deadline_perception', 'docs/page.md']):
        subprocess.run(['git', *command], cwd=tmp_path, check=True)
    found = size.sizes(tmp_path)
    # def twice ( number ) : and return 2 * number
    assert found['deadline_perception'] == size.Size(
        files=3, lines=10, code_lines=2, tokens=6 + 4, comments=1
    )
    assert found['docs'] == size.Size(files=1, lines=3) and found['test'] == size.Size()
    assert size.parts(tmp_path / 'deadline_perception') == ['inner', 'one']
