"""Train an elastic network on this device, each iteration within a time budget, and replace its weights file at the

    python research/subflow/tune.py --help
end.

Each iteration trains the largest sub-network whose bound fits the budget, or another that fits. A classifier learns
from the labels of the data; a detector from what it finds itself when it runs whole. The weights file is replaced in
one step once the new weights are scored, and are better on average: until then, whatever happens, the old one stays as
it is. Ctrl-C ends the training early.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path
from statistics import fmean

from deadline_perception.core.device import use_threads
from deadline_perception.tools.command_line import run_alone
from deadline_perception.tools.elastic_data import DATA_HELP, read_data, save_quality, score_paths
from deadline_perception.tools.profile import restart_with_environment
from deadline_perception.tools.support.file_arguments import check_file, check_numbers
from deadline_perception.tools.support.stop_request import StopRequest
from deadline_perception.tools.support.terminal import print_table, progress_bar, say

_BATCH = 8  # images of one iteration
_NORM_BATCH = 32
_MOST_IMAGES_OF_DETECTOR = 96  # whose outputs are kept as what to learn


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        '--model',
        '--weights',
        dest='weights',
        type=Path,
        required=True,
        help='elastic network, as the command elastic wrote it',
    )
    parser.add_argument('--data', required=True, help=DATA_HELP)
    parser.add_argument(
        '--budget-ms', type=float, required=True, help='time that an iteration may take'
    )
    parser.add_argument('--minutes', type=float, default=10.0, help='how long to train')
    parser.add_argument(
        '--learning-rate', type=float, default=0.001, help='step of gradient descent'
    )
    parser.add_argument('--threads', type=int, default=1, help='CPU threads')
    parser.add_argument('--out', type=Path, help='file to write; by default the weights themselves')


def run(args: argparse.Namespace) -> int:
    """Tunes, scores and replaces; returns the exit status."""
    check_numbers(args, budget_ms=(0.001, math.inf), learning_rate=(1e-30, 1e3))
    StopRequest(args.minutes)  # refuses what is no time, before anything is done
    out = args.out or args.weights
    check_file('--out', out)
    restart_with_environment(args.threads)
    import torch
    from elastic_training import (
        TimeBoundTrainer,
        class_loss,
        distillation_loss,
    )

    from deadline_perception.core.detections import Detections
    from deadline_perception.extras.elastic.checkpoint import load_elastic, save_elastic
    from deadline_perception.extras.elastic.elastic import settle_norms
    from deadline_perception.extras.elastic.network import image_batches

    use_threads(args.threads)
    network = load_elastic(args.weights)
    detects = network.result_type is Detections
    data = read_data(args.data, detects, network.input_size)
    paths = list(network.path_space)
    before = score_paths(network, data, paths)
    images = data.learning[:_MOST_IMAGES_OF_DETECTOR] if detects else data.learning
    inputs = torch.cat(list(image_batches(network.source, images, _BATCH)))
    if detects:
        with torch.no_grad():
            found = [network.module(batch) for batch in inputs.split(_BATCH)]
        targets = tuple(torch.cat(parts) for parts in zip(*found))
    else:
        labels = [network.class_names.index(name) for name in data.class_names]
        targets = (torch.tensor(labels)[torch.from_numpy(data.labels)],)
    trainer = TimeBoundTrainer(
        network.module,
        distillation_loss if detects else class_loss,
        budget_ms=args.budget_ms,
        learning_rate=args.learning_rate,
        seed=0,
    )
    generator = torch.Generator().manual_seed(0)

    def draw() -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        rows = torch.randperm(len(inputs), generator=generator)[:_BATCH]
        return inputs[rows], tuple(target[rows] for target in targets)

    trainer.measure(*draw())
    bounds_ms = trainer.bounds.bounds_ms
    fit = trainer.bounds.fit(args.budget_ms)
    say(
        f'bounds of an iteration: {bounds_ms[paths[0]["utilisation"]]:.0f} ms at the smallest utilisation, '
        f'{bounds_ms[1.0]:.0f} ms at 1; {fit.utilisation:g} fits'
    )
    stop = StopRequest(args.minutes)
    with stop.listening():
        late, waited, done = _train(trainer, draw, stop, args)
    settle_norms(network.module, inputs.split(_NORM_BATCH), whole_too=True)
    after = score_paths(network, data, paths)
    rows = [
        (f'{path["utilisation"]:.2f}', f'{100.0 * before[path]:.1f}', f'{100.0 * score:.1f}')
        for path, score in after.items()
    ]
    print_table('accuracy or AP, %', ('utilisation', 'before', 'after'), rows)
    print(
        f'{done} iterations, {late} of them ({late / max(1, done):.2%}) beyond {args.budget_ms:g} ms; {waited} more '
        f'times no bound fitted, and nothing was trained'
    )
    means = [100.0 * fmean(scores.values()) for scores in (before, after)]
    if not means[1] > means[0]:
        print(
            f'the mean over utilisations did not rise ({means[0]:.1f} to {means[1]:.1f} %): {out} is left as it is'
        )
        return stop.exit_status
    save_elastic(network, out)
    quality = save_quality(network, after, args.data, out)
    print(f'wrote {out} and {quality}; a detector takes them as it is configured anew')
    return stop.exit_status


def _train(trainer, draw, stop: StopRequest, args: argparse.Namespace) -> tuple[int, int, int]:
    """Iterates until it is to stop, with progress; returns iterations beyond the budget, left out, and done."""
    late = waited = done = 0
    begun_s = time.monotonic()
    loss = 0.0
    with progress_bar(
        'tuning', 60.0 * args.minutes, 'passed', '{task.fields[words]}', words=''
    ) as update:
        while not stop():
            iteration = trainer.iterate(*draw())
            if iteration is None:
                waited += 1
                continue
            done += 1
            late += not iteration.in_time
            loss += min(1.0, 0.02 + 1.0 / done) * (iteration.loss - loss)
            update(
                completed=time.monotonic() - begun_s,
                words=f'{done} iterations, {late} late, loss {loss:.3f}, largest that fits '
                f'{trainer.bounds.fit(args.budget_ms).utilisation:g}',
            )
    return late, waited, done


if __name__ == '__main__':
    sys.exit(run_alone(sys.modules[__name__]))
