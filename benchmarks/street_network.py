"""Accuracy of paths of `street`, which began with a public detector's weights, beside `compact` and that detector.

    python benchmarks/street_network.py [--data ../shared/data] [--limit N]

All of them see every image, in random turn, on one thread; the sources are those of `street_accuracy.py`. Both networks
compute eagerly, so that their times compare with each other and not with the public detector's, which OpenVINO runs.
Prints tables and writes results/street_network.json.
"""
from __future__ import annotations

from pathlib import Path

from own_models import MERGED
from street_accuracy import CLASSES, HIGHWAY, SOURCES, Candidate, measure, phantoms, print_table

from deadline_perception.datasets.class_names import with_mapping
from deadline_perception.datasets.source import open_source
from deadline_perception.detector.checkpoint import load_detector
from deadline_perception.latency.device import use_threads
from deadline_perception.model_set.model_reference import find_weights
from deadline_perception.model_set.set_file import ModelSpec, load_model
from deadline_perception.tools.model_conventions import TrialImages, find_conventions
from deadline_perception.tools.profile import restart_with_environment
from parts.harness import Run, run_script

PUBLIC = 'person-vehicle-bike-detection-2003.xml'
PUBLIC_CLASSES = ('vehicle', 'person', 'bike')
PATHS = {'street': ('s00000-w1.00-p100-h2', 'r0.68-s00000-w1.00-p100-h2', 'r0.41-s00000-w1.00-p100-h2',
                    'r0.25-s00000-w1.00-p100-h0'),
         'compact': ('s000-w1.00-p100-h1', 'r0.83-s101-w0.75-p100-h1', 'r0.50-s101-w0.75-p100-h0')}


def main(run: Run) -> None:
    args = run.args
    restart_with_environment(1)
    use_threads(1)
    limit = 4 if run.quick else args.limit
    candidates = []
    for name, paths in PATHS.items():
        network = load_detector(find_weights(name))
        candidates += [Candidate(f'{name} {path}', network, network.path_space.parse(path)) for path in paths]
    trial = TrialImages.of(with_mapping(open_source(str(args.data / 'bdd100k/train.json')), MERGED))
    spec = ModelSpec('public', 'onnx', args.data / 'public_models' / PUBLIC, PUBLIC_CLASSES)
    public = load_model(find_conventions(spec, trial).spec)
    candidates.append(Candidate('person-vehicle-bike-detection-2003', public, public.path_space.largest))
    result = {name: measure(candidates, args.data / file, classes, limit) for name, (file, classes) in SOURCES.items()}
    seen = phantoms(candidates, args.data / HIGHWAY, limit)
    for name in SOURCES:
        print_table(name, result[name])
    print('phantoms a frame on the highway: ' + ', '.join(f'{name} {value:.3f}' for name, value in seen.items()))
    run.write(threads=1, classes=list(CLASSES), sources=result, phantoms_a_frame=seen)


if __name__ == '__main__':
    run_script(main, {'--data': {'type': Path, 'default': Path('../shared/data')},
                      '--limit': {'type': int, 'help': 'images of each source'}}, quick='few images')
