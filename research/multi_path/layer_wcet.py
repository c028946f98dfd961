"""Worst-case times of single layers against the times that they took, alone and beside a co-runner.

    python research/multi_path/layer_wcet.py [--device cpu] [--threads 1] [--seconds 220]

Layers are those of table VI of the multi-path paper. The interval model is fitted to other layers of the same families,
in the same rounds; the table's layers take no part. A round visits every layer in random order; rounds go through the
utilisations of a second process that runs convolutions and group norms on the same device for that part of the time;
what it achieved is recorded, and a goal is missed where it is off by more than 0.1; other programs should rest. Counts
come from geometry.

A visit runs a layer five times and times the last four. Judged are all of them, against the WCET plus an allowance: the
longest interruption of a fitted layer at that utilisation. Interrupted are runs in which the system took the processor
away, and without a co-runner those that take 1.5 times as long as another of their visit (on a CPU only). The WCET,
which is fitted to the other runs, is shown against these as well.

A bound is made for each utilisation. The contention-oblivious estimate is assumption 1 alone, fitted to mean times
without a co-runner; "calibrated" it is raised by the factor with which it covers the fitted layers at that utilisation,
and has the same allowance.

Writes results/layer_wcet.json (layer_wcet_DEVICE.json on a GPU).
"""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from interval_fit import MeasuredLayer, fit_interval_model, fit_oblivious_model
from interval_model import (
    CoveringModel,
    IntervalModel,
    LayerCounts,
    Processor,
    measure_bandwidth_gb_s,
)
from layer_visits import CoRunner, LayerVisit, layer_call, visit_layer

from deadline_perception.core.device import read_device_facts
from deadline_perception.extras.evaluation.sample_size import bounded_share

sys.path.append(str(Path(__file__).resolve().parents[2] / 'benchmarks'))
from layers import ConvolutionShape, GroupNormShape, LayerShape
from parts.harness import Run, option, run_script, show

UTILISATIONS = (0.0, 0.5, 1.0)
CO_RUNNER_OFF = 0.1  # most that the co-runner's utilisation may differ from the one that was set
GOALS = {'convolution': 0.15, 'group_norm': 0.25}  # mean over-estimate of the longest time


def layers_of(convolutions: str, norms: str) -> tuple[LayerShape, ...]:
    """Layers of texts: input and output channels, kernel, stride, height, width; channels, height, width of norms."""
    numbers = [
        [tuple(map(int, row.split())) for row in text.split(',')] for text in (convolutions, norms)
    ]
    return (
        *(ConvolutionShape(*row) for row in numbers[0]),
        *(GroupNormShape(channels, 32, *size) for channels, *size in numbers[1]),
    )


# Table VI of the multi-path paper (2020); "group size 32" read as 32 groups, as its detection library has it.
TABLE_VI = layers_of(
    """
    64 256 1 1 136 240, 256 128 1 1 136 240, 128 512 1 1 68 120, 256 512 1 2 136 240,
    512 128 1 1 68 120, 512 256 1 1 68 120, 256 1024 1 1 34 60
    """,
    """
    64 272 480, 64 136 240, 256 136 240, 128 136 240, 128 68 120, 512 68 120, 256 68 120
    """,
)
FITTED = layers_of(
    """
    64 64 1 1 136 240, 64 128 1 1 136 240, 128 128 1 1 136 240, 256 64 1 1 136 240,
    128 256 1 1 68 120, 256 512 1 1 68 120, 512 64 1 1 68 120, 1024 256 1 1 34 60,
    512 512 1 1 34 60, 256 512 1 1 34 60, 96 320 1 1 100 180, 320 96 1 1 100 180,
    192 384 1 1 80 140, 64 384 1 1 90 160, 384 128 1 1 120 200, 128 768 1 1 50 90,
    128 256 1 2 136 240, 512 1024 1 2 68 120, 256 256 1 2 68 120, 256 384 1 2 120 200,
    192 512 1 2 100 200, 384 512 1 2 100 180, 256 640 1 2 80 160, 320 512 1 2 136 200,
    256 768 1 2 136 240, 384 512 1 2 136 240, 192 640 1 2 160 260, 64 320 1 1 136 240,
    320 128 1 1 136 240, 96 288 1 1 140 250, 256 1152 1 1 36 64
    """,
    """
    32 272 480, 96 200 360, 128 100 180, 256 100 180, 64 200 360, 512 34 60, 1024 34 60,
    192 100 160, 384 90 160, 64 100 180, 320 68 120, 128 200 300, 64 240 400, 160 136 240,
    96 272 480, 64 300 520, 288 136 240, 576 68 120
    """,
)
SEED = 5


@dataclass(frozen=True)
class Times:
    """What was seen of one layer: all runs, those not interrupted, the longest interruption, ms; and how many
    visits. On a GPU nothing counts as interrupted, since nobody sees whose kernels come between."""

    every: list[float]
    execution: list[float]
    interruption: float
    visits: int

    @classmethod
    def of(cls, visits: list[LayerVisit], on_gpu: bool, alone: bool) -> Times:
        every = [time_ms for visit in visits for time_ms in visit.times_ms]
        if on_gpu:
            return cls(every, every, 0.0, len(visits))
        execution = [time_ms for visit in visits for time_ms in visit.execution_ms(alone)]
        longest = max(visit.interruption_ms(alone) for visit in visits)
        return cls(every, execution, longest, len(visits))

    def measured(self, counts: LayerCounts) -> MeasuredLayer:
        worst = max(self.execution)
        return MeasuredLayer(counts, min(float(np.mean(self.execution)), worst), worst)


@dataclass(frozen=True)
class Round:
    """A visit of every layer; how long it took, and for how much of it the co-runner worked, s."""

    visits: dict[LayerShape, LayerVisit]
    seconds: float
    co_runner_s: float


def times_of(rounds: list[Round], on_gpu: bool, alone: bool) -> dict[LayerShape, Times]:
    """Times of every layer."""
    return {
        shape: Times.of([found.visits[shape] for found in rounds], on_gpu, alone)
        for shape in (*TABLE_VI, *FITTED)
    }


def achieved(rounds: list[Round]) -> float:
    """The part of the time for which the co-runner worked."""
    return sum(found.co_runner_s for found in rounds) / sum(found.seconds for found in rounds)


def _kind(shape: LayerShape) -> str:
    return shape.family.split()[0]


def visit_all(
    calls: dict[LayerShape, Callable], device: str, rng: random.Random
) -> dict[LayerShape, LayerVisit]:
    """Visits every layer once, in random order."""
    order = rng.sample(list(calls), len(calls))
    return {shape: visit_layer(calls[shape], device) for shape in order}


def fit_families(
    counts: dict[LayerShape, LayerCounts],
    times: dict[LayerShape, Times],
    processor: Processor,
    fit: Callable[..., CoveringModel | IntervalModel],
) -> dict[str, CoveringModel | IntervalModel]:
    """One model for each family among the layers with counts."""
    families: dict[str, list[MeasuredLayer]] = {}
    for shape, found in counts.items():
        families.setdefault(shape.family, []).append(times[shape].measured(found))
    return {family: fit(layers, processor) for family, layers in families.items()}


def measure_layers(device: str, threads: int, seconds: float) -> dict[float, list[Round]]:
    """Rounds over all layers at every utilisation of the co-runner."""
    rng = random.Random(SEED)
    calls = {shape: layer_call(shape, device) for shape in (*TABLE_VI, *FITTED)}
    rounds = {utilisation: [] for utilisation in UTILISATIONS}
    with CoRunner(device, threads) as co_runner:
        visit_all(calls, device, rng)  # first calls choose kernels
        end = time.monotonic() + seconds
        while time.monotonic() < end or not rounds[UTILISATIONS[-1]]:
            for utilisation in UTILISATIONS:
                co_runner.use(utilisation)
                begun_s = time.monotonic()
                worked_s = co_runner.worked_s
                visits = visit_all(calls, device, rng)
                taken_s = time.monotonic() - begun_s
                rounds[utilisation].append(Round(visits, taken_s, co_runner.worked_s - worked_s))
    return rounds


def judge_layers(
    times: dict[float, dict[LayerShape, Times]],
    processor: Processor,
    counts: dict[LayerShape, LayerCounts],
) -> list[dict]:
    """A row for every layer of the table at every utilisation."""
    fitted = {shape: counts[shape] for shape in FITTED}
    oblivious = fit_families(fitted, times[0.0], processor, fit_oblivious_model)
    rows = []
    for utilisation, seen in times.items():
        models = fit_families(fitted, seen, processor, fit_interval_model)
        allowance = max(seen[shape].interruption for shape in FITTED)
        factors = dict.fromkeys(oblivious, 1.0)
        for shape, found in fitted.items():
            over = max(seen[shape].execution) / oblivious[shape.family].wcet_ms(found)
            factors[shape.family] = max(factors[shape.family], over)
        for number, shape in enumerate(TABLE_VI):
            found = seen[shape]
            family = shape.family
            wcet = models[family].wcet_ms(counts[shape])
            guess = oblivious[family].wcet_ms(counts[shape])
            judged = {
                'bound': wcet + allowance,
                'oblivious': guess,
                'oblivious_calibrated': guess * factors[family] + allowance,
            }
            longest = max(found.every)
            uninterrupted = max(found.execution)
            row = {
                'layer': f'{_kind(shape)} {number % (len(TABLE_VI) // 2) + 1}',
                'kind': _kind(shape),
                'shape': shape,
                'utilisation': utilisation,
                'visits': found.visits,
                'bounded_share': bounded_share(found.visits),
                'runs': len(found.every),
                'max_ms': longest,
                'wcet_ms': wcet,
                'allowance_ms': allowance,
                'interrupted': len(found.every) - len(found.execution),
                'uninterrupted_max_ms': uninterrupted,
                'wcet_over_uninterrupted': wcet / uninterrupted - 1.0,
                'uninterrupted_above_wcet': sum(value > wcet for value in found.execution),
            }
            for name, value in judged.items():
                row[f'{name}_ms'] = value
                row[f'{name}_over_max'] = value / longest - 1.0
                row[f'above_{name}'] = sum(time_ms > value for time_ms in found.every)
            rows.append(row)
    return rows


SHOWN = {
    'kind': 'layers',
    'utilisation': 'busy',
    'achieved_utilisation': 'is',
    'runs': 'runs',
    'interrupted': 'cut',
    'allowance_ms': 'allows ms',
    'bound_over_max': 'bound',
    'above_bound': 'above',
    'goal': 'goal',
    'met': 'met',
    'wcet_over_uninterrupted': 'uncut',
    'uninterrupted_above_wcet': 'above',
    'oblivious_over_max': 'oblivious',
    'above_oblivious': 'above',
    'oblivious_calibrated_over_max': 'calibrated',
    'above_oblivious_calibrated': 'above',
}


def summarise(rows: list[dict], co_runner: dict[float, float]) -> list[dict]:
    """Prints and returns what stands against the goals; `co_runner` is what it achieved, by utilisation."""
    summary = []
    for (kind, goal), utilisation in itertools.product(GOALS.items(), UTILISATIONS):
        of = {'kind': kind, 'utilisation': utilisation}
        group = [row for row in rows if row.items() >= of.items()]
        entry = {
            **of,
            'goal': goal,
            'achieved_utilisation': co_runner[utilisation],
            'bounded_share': group[0]['bounded_share'],
            'allowance_ms': group[0]['allowance_ms'],
        }
        for key in group[0]:
            if key.endswith(('_over_max', '_over_uninterrupted')):
                entry[key] = float(np.mean([row[key] for row in group]))
            elif key in ('runs', 'interrupted') or 'above_' in key:
                entry[key] = sum(row[key] for row in group)
        steady = abs(co_runner[utilisation] - utilisation) <= CO_RUNNER_OFF
        entry['met'] = steady and entry['bound_over_max'] <= goal and entry['above_bound'] == 0
        summary.append(entry)
    show(
        'Layers of table VI beside a co-runner: bounds over the longest run, and runs above them, as shares',
        SHOWN.values(),
        [[entry[key] for key in SHOWN] for entry in summary],
    )
    return summary


def main(run: Run) -> None:
    args = run.args
    facts = read_device_facts(args.device)
    processor = Processor.of(facts, measure_bandwidth_gb_s(args.device))
    counts = {shape: LayerCounts.of(shape, processor) for shape in (*TABLE_VI, *FITTED)}
    rounds = measure_layers(args.device, args.threads, args.seconds)
    on_gpu = facts.kind == 'cuda'
    times = {busy: times_of(found, on_gpu, busy == 0.0) for busy, found in rounds.items()}
    rows = judge_layers(times, processor, counts)
    co_runner = {utilisation: achieved(found) for utilisation, found in rounds.items()}
    summary = summarise(rows, co_runner)
    if facts.kind != 'cpu':
        run.name = f'layer_wcet_{facts.slug}'
    run.write(
        device=facts,
        processor=processor,
        seconds=args.seconds,
        rounds={str(utilisation): len(found) for utilisation, found in rounds.items()},
        summary=summary,
        layers=rows,
        fitted_layers=len(FITTED),
    )


if __name__ == '__main__':
    run_script(
        main,
        {
            '--device': option('cpu', 'cpu, cuda or cuda:INDEX'),
            '--threads': option(1, 'CPU threads'),
            '--seconds': option(220.0, 'time for measuring; starting up comes on top', above=0.0),
        },
    )
