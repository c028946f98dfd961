"""Take detectors that you already have: measure them on this device and on your data, and write what the detector node
needs.

Three files come of it: the set of models (--out), and beside it its latency profile and its quality table.
`model:=set.yaml` launches them: per frame, the detector runs the best model whose bound fits the time left. Other
programs should rest meanwhile, because the profile says how fast the device is when idle.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from deadline_perception.extras.external_models.model_set.set_file import check_device
from deadline_perception.networks.model_reference import (
    SET_SUFFIXES,
    is_set,
)
from deadline_perception.tools.support.file_arguments import (
    add_device_arguments,
    check_file,
    check_numbers,
)
from deadline_perception.tools.support.model_arguments import (
    MODEL_HELP,
    add_model_arguments,
    read_models,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument('models', nargs='+', metavar='MODEL', help=MODEL_HELP)
    add_model_arguments(parser)
    parser.add_argument(
        '--data',
        help='annotated images, on which the models are compared: a COCO file, a data set '
        'folder, or a bag; without it, a slower model is taken to be a better one',
    )
    parser.add_argument(
        '--images',
        metavar='DATA',
        help='images, annotated or not, that conventions are found on and '
        'ranges of 8 bit measured, so that --data stays unseen; without it some of --data, or of a '
        'rendered drive',
    )
    parser.add_argument('--out', type=Path, default=Path('set.yaml'), help='set of models to write')
    parser.add_argument('--limit', type=int, help='evaluate on so many images only, evenly spaced')
    parser.add_argument(
        '--paths', type=int, default=16, help='paths to evaluate of a model that has several'
    )
    parser.add_argument(
        '--minutes', type=float, default=2.0, help='longest time to measure latencies'
    )
    parser.add_argument(
        '--memory-limit',
        type=float,
        metavar='MB',
        help='of all models together; the best beside the fastest that it holds are kept',
    )
    parser.add_argument(
        '--float-only',
        action='store_true',
        help='do not try detectors in 8 bit, which takes a minute each and needs --data',
    )
    parser.add_argument(
        '--keep-paths',
        type=int,
        metavar='NUMBER',
        help='of a model with several paths keep at most '
        'so many ready: the best at as many levels of contention; needs --data',
    )
    add_device_arguments(
        parser, engine="of this package's own weights on a CPU; ONNX files run on a GPU, too"
    )


def run(args: argparse.Namespace) -> int:
    """Measures, evaluates and writes a set; returns the exit status."""
    _check(args)
    specs = read_models(args)
    for spec in specs:
        check_device(spec, args.device)
    # A file that cannot be used is refused by now: torch and scipy take seconds to load.
    from deadline_perception.tools.adoption import adopt
    from deadline_perception.tools.profile import restart_with_environment
    from deadline_perception.tools.support.inference_thread import inference_thread

    restart_with_environment(args.threads)
    with inference_thread(lock_memory=args.device == 'cpu') as priority:
        adopt(args, specs, priority)
    return 0


def _check(args: argparse.Namespace) -> None:
    if not is_set(args.out):
        raise ValueError(
            f'--out is {args.out}, expected a file that ends with {" or ".join(SET_SUFFIXES)}'
        )
    if args.keep_paths is not None and args.data is None:
        raise ValueError(
            '--keep-paths is given without --data, expected both: the paths to keep are the best on it'
        )
    for suffix in (args.out.suffix, '.profile.json', '.quality.json'):
        check_file('--out', args.out.with_suffix(suffix))
    check_numbers(
        args,
        minutes=(0.001, 600.0),
        memory_limit=(0.001, 2.0**30),
        paths=(2, 100_000),
        keep_paths=(1, 100_000),
    )
