"""The SubFlow paper's Fig. 6 and 8 on its network shapes (Table I): time and accuracy over utilisation, here.

    python research/subflow/subflow_networks.py [--shape LeNet-5] [--repeats 30] [--iterations 400] [--quick]

Each shape is trained whole, ranked, then trained nested for `--iterations` iterations. Times: inference of one sample
and training of a batch of 96, each setting in turn, in two forms: prefix (dense kernels on a prefix of the channels) and
element (single neurons, skipped one by one as the paper defines them). Overhead is the median time of the elastic
network over that of an ordinary network of the same narrow shape. Construction is the time of building all activation
vectors. Writes results/subflow_networks.json.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, median

import torch
from elastic_training import ActiveDescent, gradients
from element_form import ElementNetwork, activation_vector, element_masks
from subflow_shapes import (
    BATCH,
    SHAPES,
    Shape,
    Split,
    accuracy,
    accuracy_by_setting,
    made_elastic,
    nested_training,
    trained,
)
from torch import nn
from torch.nn import functional as F

from deadline_perception.core.device import read_device_facts
from deadline_perception.engines.sliced_layers import Convolution, Linear
from deadline_perception.extras.elastic.activation import activate
from deadline_perception.extras.elastic.elastic import ElasticModule

sys.path.append(str(Path(__file__).resolve().parents[2] / 'benchmarks'))
from parts.harness import Run, option, run_script, show, timed_ms, turns

ELEMENT_SETTINGS = (0.1, 0.5, 1.0)  # the element form is slow
CONSTRUCTIONS = 2000
SHOWN = (
    'accuracy',
    'accuracy_without_training',
    'prefix_ms',
    'narrow_ms',
    'element_ms',
    'training_ms',
    'construction_us',
)
# Goals: the paper's figures for AlexNet (abstract; section VII-B and VII-D), and ours where they are higher.
GOALS = {
    'inference_range': {'least': 6.7},
    'mean_accuracy_drop': {'most': 3.0},
    'training_range': {'least': 3.1},
    'construction_us': {'most': 50.0},
    'overhead': {'most': 0.01},
}


def narrow_copy(network: ElasticModule, module: nn.Sequential, utilisation: float) -> nn.Sequential:
    """An ordinary network of the shape and weights of a sub-network: what the elastic one's time is compared with."""
    activation = network.activate(utilisation)
    layers = []
    for name, layer in module.named_children():
        found = getattr(network.body, name, None)
        if isinstance(found, (Convolution, Linear)):
            weight, bias = (part.detach().clone() for part in found.views(activation))
            if isinstance(layer, nn.Conv2d):
                layer = nn.Conv2d(
                    weight.shape[1], weight.shape[0], layer.kernel_size, layer.stride, layer.padding
                )
                weight = weight.contiguous(memory_format=torch.channels_last)
            else:
                layer = nn.Linear(weight.shape[1], weight.shape[0])
            layer.weight = nn.Parameter(weight)
            layer.bias = nn.Parameter(bias)
        layers.append(layer)
    return nn.Sequential(*layers).eval()


def times_ms(runs: dict[object, Callable[[], object]], repeats: int) -> dict[object, float]:
    """Median time of each run, in rounds of random order, so that what else the machine does falls on all alike."""
    times = defaultdict(list)
    for number, key in turns(runs, repeats + 2):
        took_ms = timed_ms(runs[key])
        if number > 1:
            times[key].append(took_ms)
    return {key: median(samples) for key, samples in times.items()}


def inference_times(
    network: ElasticModule, module: nn.Sequential, data: Split, repeats: int
) -> dict:
    """By form and setting, ms of one sample."""
    sample = data.test_inputs[:1]
    runs = {}
    runs['ordinary', 1.0] = lambda: module(sample)
    for setting in network.settings:
        narrow = narrow_copy(network, module, setting)
        runs['prefix', setting] = lambda setting=setting: network(sample, utilisation=setting)
        runs['narrow', setting] = lambda narrow=narrow: narrow(sample)
    for setting in ELEMENT_SETTINGS:
        masks = element_masks(network, data.calibration, setting)
        element = ElementNetwork(network, network.activate(1.0), masks)
        runs['element', setting] = lambda element=element: element.compute(sample)
    with torch.inference_mode():
        return times_ms(runs, repeats)


def training_times(network: ElasticModule, data: Split, repeats: int) -> dict[float, float]:
    """By setting, ms of one iteration with a batch of 96; weights are put back afterwards."""
    kept = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    inputs = data.inputs[:BATCH]
    labels = data.labels[:BATCH]
    descent = ActiveDescent(1e-5)
    runs = {
        setting: lambda setting=setting: descent.step(
            gradients(network, network.activate(setting), F.cross_entropy, inputs, labels)[1]
        )
        for setting in network.settings
    }
    found = times_ms(runs, max(3, repeats // 6))
    network.load_state_dict(kept)
    return found


def construction_us(network: ElasticModule) -> dict[float, float]:
    """By setting, median time of building every layer's activation vector, as no setting is built ahead of time."""

    def build(setting: float) -> None:
        activation = activate(network.groups, setting, network.settings)
        for group in range(len(network.groups)):
            activation_vector(activation, group)

    return {
        setting: 1000.0 * median(timed_ms(lambda: build(setting)) for _ in range(CONSTRUCTIONS))
        for setting in network.settings
    }


def measure(shape: Shape, run: Run) -> dict:
    """All figures of one shape."""
    args = run.args
    data = shape.data()
    module = trained(shape, data, run.quick)
    network = made_elastic(module, data)
    untuned = accuracy_by_setting(network, data)
    nested_training(network, data, 2 if args.quick else args.iterations)
    tuned = accuracy_by_setting(network, data)
    ordinary = accuracy(module, data)
    module = module.to(memory_format=torch.channels_last)
    inference = inference_times(network, module, data, args.repeats)
    training = training_times(network, data, args.repeats)
    built = construction_us(network)
    rows = {
        setting: {
            'accuracy': tuned[setting],
            'accuracy_without_training': untuned[setting],
            'weights': network.used_weights(setting),
            'construction_us': built[setting],
            'training_ms': training[setting],
            'overhead': inference['prefix', setting] / inference['narrow', setting] - 1.0,
            **{
                f'{form}_ms': inference[form, setting]
                for form in ('prefix', 'narrow', 'element')
                if (form, setting) in inference
            },
        }
        for setting in network.settings
    }
    full = rows[1.0]
    smallest = rows[network.settings[0]]
    return {
        'test_samples': len(data.test_labels),
        'accuracy_of_the_ordinary_network': ordinary,
        'ordinary_ms': inference['ordinary', 1.0],
        'settings': rows,
        'summary': {
            'inference_range': full['prefix_ms'] / smallest['prefix_ms'],
            'training_range': full['training_ms'] / smallest['training_ms'],
            'mean_accuracy_drop': ordinary - fmean(row['accuracy'] for row in rows.values()),
            'construction_us': max(built.values()),
            'overhead': median(row['overhead'] for row in rows.values()),
        },
    }


def main(run: Run) -> None:
    args = run.args
    shapes = [shape for shape in SHAPES.values() if args.shape in (None, shape.name)]
    result = {
        'device': str(read_device_facts()),
        'repeats': args.repeats,
        'nested_iterations': args.iterations,
        'shapes': {},
    }
    for shape in shapes:
        found = result['shapes'][shape.name] = measure(shape, run)
        show(
            f'{shape.name}: {found["accuracy_of_the_ordinary_network"]:.1f} % and {found["ordinary_ms"]:.3f} ms '
            'ordinary',
            'u | accuracy % | untrained % | prefix ms | narrow ms | element ms | training ms | built us',
            [
                (setting, *(row.get(name) for name in SHOWN))
                for setting, row in found['settings'].items()
            ],
            words=0,
        )
        for name, value in found['summary'].items():
            run.goal(f'{shape.name}: {name}', value, **GOALS[name])
    run.write(**result)


if __name__ == '__main__':
    run_script(
        main,
        {
            '--shape': option(None, 'one shape only', choices=SHAPES),
            '--repeats': option(30, 'rounds of inference that count'),
            '--iterations': option(400, 'of nested training'),
        },
        quick='hardly any training',
        threads=1,
    )
