import json
import random
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from python_run import run_python
from safetensors.torch import save_file

from deadline_perception.core.device import read_device_facts
from deadline_perception.extras.data.coco import read_coco
from deadline_perception.extras.evaluation.path_accuracy import annotated_frames, measure_paths
from deadline_perception.extras.faster_rcnn.configuration import COMPACT
from deadline_perception.extras.faster_rcnn.network import FasterRcnn
from deadline_perception.extras.weights_writer import build_detector, save_detector
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.networks.weights_file import CheckpointError, read_recipe

NAMES = ('vehicle', 'bike')
METADATA = {'config': COMPACT.to_json(), 'class_names': json.dumps(NAMES)}


@pytest.fixture(scope='module')
def saved(tmp_path_factory):
    network = build_detector('compact', NAMES, seed=3)
    file = tmp_path_factory.mktemp('weights') / 'street.safetensors'
    save_detector(network, file, recipe='none')
    return network, file


def test_recipe_is_kept_with_the_weights(saved, tmp_path):
    assert read_recipe(saved[1]) == 'none'
    save_file({'weight': torch.zeros(3)}, tmp_path / 'foreign.safetensors')
    assert read_recipe(tmp_path / 'foreign.safetensors') is None
    (tmp_path / 'cut.safetensors').write_bytes(saved[1].read_bytes()[:-100])
    nothing = 'holds nothing beside the weights, expected config and class_names'
    for read, name, message in (
        (load_detector, 'foreign', nothing),
        (read_recipe, 'nowhere', 'nowhere.safetensors does not exist'),
        (load_detector, 'nowhere', 'nowhere.safetensors does not exist'),
        (load_detector, 'cut', 'cannot be read as safetensors'),
    ):
        with pytest.raises(CheckpointError, match=message):
            read(tmp_path / f'{name}.safetensors')


def test_weights_beyond_float16_are_not_written(saved, tmp_path):
    network = build_detector('compact', NAMES)
    network.rpn.outputs.weight.data[0] = 7e4
    message = 'rpn.outputs.weight is not finite as float16, .* within 65504'
    with pytest.raises(CheckpointError, match=message):
        save_detector(network, tmp_path / 'large.safetensors')
    assert not list(tmp_path.iterdir())


NO_NAMES = 'expected a JSON list of 1 to 10000 names'


@pytest.mark.parametrize(
    ('key', 'text', 'message'),
    [
        ('config', 'huge', 'cannot be used: it is no JSON'),
        ('config', '{"name": "huge"}', 'cannot be used: configuration .* missing required field'),
        ('config', '[' * 100_000, 'cannot be used: it is nested too deeply'),
        ('class_names', 'vehicle', NO_NAMES),
        ('class_names', '[]', NO_NAMES),
        ('class_names', '[1]', NO_NAMES),
        ('class_names', '9' * 5000, NO_NAMES),
        ('class_names', json.dumps(['a'] * 10_001), NO_NAMES),
    ],
)
def test_metadata_that_say_nothing_are_refused(tmp_path, key, text, message):
    file = tmp_path / 'other.safetensors'
    save_file({'weight': torch.zeros(3)}, file, metadata=METADATA | {key: text})
    with pytest.raises(CheckpointError, match=message):
        load_detector(file)


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        (lambda weight: torch.full_like(weight, torch.nan), 'NaN or infinity in rpn.outputs.bias'),
        (lambda weight: weight.to(torch.int8), "is of type 'I8', expected one of F16, BF16, F32"),
        (lambda weight: weight[:3], r'rpn.outputs.bias has the shape \[3\], expected \[20\]'),
    ],
)
def test_weights_of_another_kind_are_refused(saved, tmp_path, change, message):
    tensors = {name: tensor.contiguous() for name, tensor in saved[0].state_dict().items()}
    tensors['rpn.outputs.bias'] = change(tensors['rpn.outputs.bias'])
    file = tmp_path / 'other.safetensors'
    save_file(tensors, file, metadata=METADATA | {'network_hash': saved[0].network_hash})
    with pytest.raises(CheckpointError, match=message):
        load_detector(file)


def large_files(folder, known):
    """Files of at most some MB that describe networks of many GB, and what is said of each."""
    wide = replace(
        COMPACT,
        norm_groups=8,
        stem_channels=10_000,
        stage_channels=(10_000,) * 4,
        pyramid_channels=1000,
        input_size=(64, 64),
        scales=(1.0,),
        proposals=(10,),
    )
    with torch.device('meta'):
        network = FasterRcnn(wide, NAMES)
    stored = {
        name: {'dtype': 'I8', 'shape': list(tensor.shape), 'data_offsets': [0, 2]}
        for name, tensor in network.state_dict().items()
    }
    bias = {'rpn.outputs.bias': {'dtype': 'F16', 'shape': [10**12], 'data_offsets': [0, 2]}}
    cases = [
        ({'skip_groups': [[1] * 100_000, [], [], []]}, NAMES, {}, '', 'blocks is 100004'),
        ({'stem_channels': 10**12}, NAMES, {}, '', 'number of channels is 1000000000000'),
        ({}, ['name'] * 1_000_000, {}, '', 'expected at most 4194304'),
        ({}, ['n'] * 100_000, {}, '', 'class names'),
        (asdict(wide), NAMES, stored, network.network_hash, 'weights, expected at most 268435456'),
        ({}, NAMES, bias, known, 'does not fit'),
    ]
    for number, (config, names, tensors, network_hash, said) in enumerate(cases):
        texts = {'config': json.dumps(asdict(COMPACT) | config), 'class_names': json.dumps(names)}
        header = {'__metadata__': texts | {'network_hash': network_hash}, **tensors}
        text, file = json.dumps(header).encode(), folder / f'{number}.safetensors'
        file.write_bytes(len(text).to_bytes(8, 'little') + text)
        yield file, said


def test_a_file_does_not_decide_how_much_memory_is_taken(saved, tmp_path):
    files = list(large_files(tmp_path, saved[0].network_hash))
    program = (
        'import json, resource, sys\nfrom pathlib import Path\n'
        'from deadline_perception.networks.weights_file import CheckpointError\n'
        'from deadline_perception.networks.multi_path.checkpoint import load_detector\n'
        'taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()\n'
        'resource.setrlimit(resource.RLIMIT_AS, (taken + 2**28,) * 2)\n'
        'for file in sys.argv[1:]:\n    try:\n        load_detector(file)\n        print("loaded")\n'
        '    except CheckpointError as error:\n        print(error)\n'
    )
    run = run_python('-c', program, *(str(file) for file, _ in files))
    answers = run.stdout.splitlines()
    assert len(answers) == len(files), run.stderr
    for answer, (file, reason) in zip(answers, files):
        assert file.name in answer and reason in answer and len(answer) < 1000


@pytest.mark.skipif(not torch.cuda.is_available(), reason='needs a CUDA device')
def test_the_network_names_the_index_of_a_gpu(saved):
    last = f'cuda:{torch.cuda.device_count() - 1}'
    assert load_detector(saved[1], device=last).device == last
    device = load_detector(saved[1], device='cuda').device
    assert read_device_facts(device) == read_device_facts('cuda:0')


REPOSITORY = Path(__file__).resolve().parents[3]
VALIDATION = REPOSITORY.parent / 'shared' / 'data' / 'carla' / 'val.json'
IMAGES, PATHS = 6, 5
# Of vehicles, the class with most objects; on all validation images no path was under 0.5.
LEAST_AP50 = 0.3


@pytest.mark.slow
@pytest.mark.skipif(not VALIDATION.is_file(), reason='needs the validation images')
def test_no_path_is_broken():
    detector = load_detector(REPOSITORY / 'models' / 'street.safetensors')
    space, rng = detector.path_space, random.Random(0)
    paths = [space.largest, space.smallest, *(rng.choice(list(space)) for _ in range(PATHS - 2))]
    sequence = read_coco(VALIDATION)
    results = measure_paths(detector, sequence, annotated_frames(sequence, IMAGES), paths)
    ap50 = {str(path): result.per_class['vehicle'].ap50 for path, (result, *_) in results.items()}
    assert len(ap50) == PATHS and min(ap50.values()) > LEAST_AP50, ap50
