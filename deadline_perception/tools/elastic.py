"""Make a network run at any share of its neurons, the most important ones first, without training it.

Takes one of torchvision's networks (classifiers, SSD, SSDLite) or your own classifier, with your weights, ranks its
neurons on your images, and writes weights that profile, tune and the detector node take. Shows accuracy and time at
every share.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

from deadline_perception.core.device import use_threads
from deadline_perception.extras.data.records import spread_evenly
from deadline_perception.timing.profile import time_frame
from deadline_perception.tools.elastic_data import DATA_HELP, read_data, save_quality, score_paths
from deadline_perception.tools.profile import restart_with_environment
from deadline_perception.tools.support.file_arguments import check_file
from deadline_perception.tools.support.terminal import print_table

_CALIBRATION, _BATCH = 256, 32
_TIMED = 9


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        'model',
        help="name of one of torchvision's networks, such as resnet18 or "
        'ssdlite320_mobilenet_v3_large, or package.module:callable, which gives a '
        'classifier',
    )
    parser.add_argument(
        '--weights',
        type=Path,
        required=True,
        help='weights of the network: safetensors, or a state dict that torch.save wrote',
    )
    parser.add_argument('--data', required=True, help=DATA_HELP)
    parser.add_argument(
        '--classes',
        metavar='NAMES',
        help='what the labels mean, with commas; without it the classes of the data, ImageNet or COCO, '
        'whichever are as many as those of the weights',
    )
    parser.add_argument(
        '--size',
        type=int,
        nargs=2,
        metavar=('HEIGHT', 'WIDTH'),
        help="of the input in px; by default 224 224, or the detector's own",
    )
    parser.add_argument('--threads', type=int, default=1, help='CPU threads')
    parser.add_argument(
        '--out', type=Path, default=Path('out/elastic/elastic.safetensors'), help='file to write'
    )


def run(args: argparse.Namespace) -> int:
    """Converts, scores and writes; returns the exit status."""
    check_file('--out', args.out)
    restart_with_environment(args.threads)
    import torch

    from deadline_perception.core.detections import Detections
    from deadline_perception.extras.elastic.checkpoint import save_elastic
    from deadline_perception.extras.elastic.elastic import elastic
    from deadline_perception.extras.elastic.network import ElasticNetwork, image_batches
    from deadline_perception.extras.elastic.source import find_source, read_weights

    use_threads(args.threads)
    weights = read_weights(args.weights)
    names = tuple(name.strip() for name in args.classes.split(',')) if args.classes else ()
    source = find_source(args.model, weights, names, tuple(args.size) if args.size else None)
    detects = source.decoder().result_type is Detections
    data = read_data(args.data, detects, source.input_size)
    if not names and len(data.class_names or data.scoring.class_names) == len(source.class_names):
        source = find_source(
            args.model, weights, data.class_names or data.scoring.class_names, source.input_size
        )
    module = source.ordinary(weights)
    with torch.no_grad():
        network = ElasticNetwork(
            elastic(
                module,
                source.example_inputs,
                list(image_batches(source, spread_evenly(data.learning, _CALIBRATION), _BATCH)),
            ),
            source,
        )
    paths = list(network.path_space)
    scores = score_paths(network, data, paths)
    save_elastic(network, args.out)
    quality = save_quality(network, scores, args.data, args.out)
    _print(network, scores, data.learning[0])
    print(f'wrote {args.out} and {quality}')
    return 0


def _print(network, scores: dict, image) -> None:
    module = network.module
    whole = [group for group in module.groups if group.whole_because]
    rows = []
    for path, score in scores.items():
        time_frame(network, image, path)
        took_ms = median(time_frame(network, image, path)[0] for _ in range(_TIMED))
        share = module.used_weights(path['utilisation']) / module.weights
        rows.append(
            (f'{path["utilisation"]:.2f}', f'{share:.0%}', f'{100.0 * score:.1f}', f'{took_ms:.1f}')
        )
    print_table(
        f'{network.source.model}: {module.weights / 1e6:.2f} million weights',
        ('utilisation', 'weights', 'accuracy or AP, %', 'median ms'),
        rows,
    )
    print(
        f'{len(module.groups) - len(whole)} of {len(module.groups)} groups of channels can be narrowed; whole stay '
        + '; '.join(f'{group.names[0]}, because {group.whole_because}' for group in whole[:4])
        + (f'; and {len(whole) - 4} more' if len(whole) > 4 else '')
    )
