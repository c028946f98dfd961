"""The commands that `killed_commands.py` kills, each with files of its own and what must hold of these."""
from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import nn

from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.engines.tensor_file import read_header
from deadline_perception.networks.elastic.checkpoint import load_elastic, save_elastic
from deadline_perception.networks.elastic.elastic import elastic
from deadline_perception.networks.elastic.network import ElasticNetwork
from deadline_perception.networks.elastic.source import CALLABLES, NetworkSource
from deadline_perception.networks.model_set.set_file import load_set
from deadline_perception.networks.multi_path.checkpoint import build_detector, load_detector, save_detector
from deadline_perception.networks.multi_path.configuration import COMPACT, HeadConfig, save_configuration
from deadline_perception.timing.profile import LatencyProfile

TINY = replace(COMPACT, name='tiny', input_size=(64, 96), stem_channels=16, stage_channels=(16, 32, 32, 64),
               norm_group_channels=4, pyramid_channels=16, skip_groups=((1,), (), (), ()), scales=(1.0,),
               widths=(1.0,), pyramid_widths=(1.0,), proposals=(5, 20), nms_candidates=60,
               heads=(HeadConfig(1, (32,)),))
CLASSES = ('vehicle', 'bike')
IMAGES = 12
MINUTES = '0.05'
FIXED_PATH = 's1-w1.00-p5-h0'


class Kind:
    """One command. Files lie in a folder of its own; `cache` in there is the user's cache.

    Attributes:
        name: of the command.
        unit: of its progress.
        keeps: it goes on where it was killed, so that no progress is lost; others begin anew from what was before.
        grows: the last run must get further than those before.
    """

    name = unit = ''
    keeps = grows = False

    def prepare(self, folder: Path) -> None:
        """Makes what the command reads."""
        raise NotImplementedError

    def first(self, folder: Path) -> Sequence[str]:
        """Words of the run before."""
        raise NotImplementedError

    def again(self, folder: Path) -> Sequence[str]:
        """Words of the runs that are killed, and of the last."""
        return self.first(folder)

    def begin_again(self, folder: Path, progress: int) -> int:
        """Called after the first run; the progress that the next ones begin with."""
        return progress

    def restore(self, folder: Path) -> None:
        """Called before each later run."""

    def check(self, folder: Path) -> int:
        """Loads the files as their readers do; returns the progress.

        Raises:
            ValueError, OSError, DeadlinePerceptionError: they are not usable.
        """
        raise NotImplementedError


class Train(Kind):
    """Goes on from its state; the weights so far stay readable."""

    name, unit = 'train', 'steps'
    keeps = grows = True

    def prepare(self, folder: Path) -> None:
        write_annotations(folder)
        save_configuration(TINY, folder / 'tiny.json')

    def first(self, folder: Path) -> Sequence[str]:
        return ('train', '--config', str(folder / 'tiny.json'), '--data', str(folder / 'val.json'), '--steps',
                '100000', '--batch', '1', '--threads', '1', '--minutes', MINUTES, '--state',
                str(folder / 'state.safetensors'), '--out', str(folder / 'weights.safetensors'))

    def check(self, folder: Path) -> int:
        load_detector(folder / 'weights.safetensors')
        step = int(read_header(folder / 'state.safetensors').metadata['step'])
        logged = [json.loads(line)['step'] for line in (folder / 'state.jsonl').read_text().splitlines()]
        if logged[:step] != list(range(1, step + 1)):
            raise ValueError(f'the log has {len(logged)} steps to {max(logged, default=0)}, expected each of {step}')
        return step


class Tune(Kind):
    """Weights are those before, or the better ones with their table of qualities."""

    name, unit = 'tune', 'runs that replaced the weights'

    def prepare(self, folder: Path) -> None:
        os.environ[CALLABLES] = f'{__name__}:tiny_classifier'
        os.environ['PYTHONPATH'] = str(Path(__file__).parents[1])
        rng = np.random.default_rng(0)
        for name, level in (('bright', 200), ('dark', 50)):
            (folder / 'images' / name).mkdir(parents=True)
            for number in range(IMAGES):
                image = np.clip(rng.normal(level, 10, (8, 8, 3)), 0, 255).astype(np.uint8)
                cv2.imwrite(str(folder / 'images' / name / f'{number:02d}.png'), image)
        torch.manual_seed(0)
        source = NetworkSource(f'{__name__}:tiny_classifier', ('bright', 'dark'), (8, 8))
        module = elastic(source.ordinary(), source.example_inputs, torch.randn(8, 3, 8, 8), settings=(0.5, 1.0))
        save_elastic(ElasticNetwork(module, source), folder / 'before.safetensors')
        self.restore(folder)

    def restore(self, folder: Path) -> None:
        shutil.copy(folder / 'before.safetensors', folder / 'net.safetensors')
        (folder / 'net.quality.json').unlink(missing_ok=True)

    def first(self, folder: Path) -> Sequence[str]:
        return ('network', 'tune', '--weights', str(folder / 'net.safetensors'), '--data', str(folder / 'images'),
                '--budget-ms', '60000', '--minutes', MINUTES, '--learning-rate', '0.01')

    def begin_again(self, folder: Path, progress: int) -> int:
        return 0

    def check(self, folder: Path) -> int:
        network, table = load_elastic(folder / 'net.safetensors'), folder / 'net.quality.json'
        if (folder / 'net.safetensors').read_bytes() == (folder / 'before.safetensors').read_bytes():
            return 0
        if table.exists():  # between weights and table a node goes without it
            PathQuality.load(table, network.path_space).check(network.weights_hash)
        return 1


class Adopt(Kind):
    """A set of one model stays usable while one of two is made in its place."""

    name, unit = 'adopt', 'models'

    def prepare(self, folder: Path) -> None:
        write_annotations(folder)
        for seed in (1, 2):
            write_detector(folder / f'net{seed}.safetensors', seed)

    def first(self, folder: Path) -> Sequence[str]:
        return self._words(folder, 'net1.safetensors')

    def again(self, folder: Path) -> Sequence[str]:
        return self._words(folder, 'net1.safetensors', f'net2.safetensors:{FIXED_PATH}')

    def _words(self, folder: Path, *models: str) -> Sequence[str]:
        return ('adopt', *(f'{folder}/{model}' for model in models), '--data', str(folder / 'val.json'),
                '--paths', '2', '--minutes', MINUTES, '--float-only', '--threads', '1', '--engine', 'eager', '--out',
                str(folder / 'set.yaml'))

    def begin_again(self, folder: Path, progress: int) -> int:
        (folder / 'before').mkdir()
        for file in folder.glob('set.*'):
            shutil.copy(file, folder / 'before')
        return progress

    def restore(self, folder: Path) -> None:
        for file in (folder / 'before').iterdir():
            shutil.copy(file, folder)

    def check(self, folder: Path) -> int:
        network = load_set(folder / 'set.yaml', engine='eager')
        profile = LatencyProfile.load(folder / 'set.profile.json')
        if profile.network_hash != network.network_hash:
            raise ValueError('the profile beside the set is of another set')
        PathQuality.load(folder / 'set.quality.json', network.path_space).check(network.weights_hash)
        return len(network.models)


class Profile(Kind):
    """The profile before stays; segments that were prepared are not prepared again."""

    name, unit, keeps = 'profile', 'segments', True

    def prepare(self, folder: Path) -> None:
        write_detector(folder / 'net.safetensors', 1)

    def first(self, folder: Path) -> Sequence[str]:
        return ('profile', '--weights', str(folder / 'net.safetensors'), '--quick', '--minutes', MINUTES, '--threads',
                '1')

    def begin_again(self, folder: Path, progress: int) -> int:
        shutil.rmtree(folder / 'cache' / 'deadline_perception' / 'engine')
        return 0

    def check(self, folder: Path) -> int:
        file, = (folder / 'cache' / 'deadline_perception' / 'profiles').glob('*.json')
        LatencyProfile.load(file)
        keys = set()
        for index in (folder / 'cache' / 'deadline_perception' / 'engine').rglob('segments.json'):
            keys |= set(json.loads(index.read_text())['segments'])
        return len(keys)


KINDS = (Train(), Tune(), Adopt(), Profile())


class TinyClassifier(nn.Module):
    """Two convolutions and two fully connected layers, for images of 8 x 8 px."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.widen = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.hidden, self.classes = nn.Linear(8, 12), nn.Linear(12, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores `[batch, 2]` of images `[batch, 3, 8, 8]`."""
        x = torch.relu(self.widen(torch.relu(self.stem(x)))).mean((2, 3))
        return self.classes(torch.relu(self.hidden(x)))


def tiny_classifier() -> nn.Module:
    """What `tune` trains."""
    return TinyClassifier()


def write_detector(file: Path, seed: int) -> None:
    """A tiny detector with random weights."""
    torch.manual_seed(seed)
    save_detector(build_detector(TINY, CLASSES), file)


def write_annotations(folder: Path) -> None:
    """Noisy images with a box of each class, in COCO format."""
    rng = np.random.default_rng(0)
    content = {'categories': [{'id': number + 1, 'name': name} for number, name in enumerate(CLASSES)], 'images': [],
               'annotations': []}
    for number in range(1, IMAGES + 1):
        cv2.imwrite(str(folder / f'{number}.png'), rng.integers(0, 256, (64, 96, 3), dtype=np.uint8))
        content['images'].append({'id': number, 'file_name': f'{number}.png', 'width': 96, 'height': 64})
        for category in (1, 2):
            content['annotations'].append({'id': 2 * number + category, 'image_id': number, 'category_id': category,
                                           'bbox': [25 * category, 20, 30, 30], 'area': 900, 'iscrowd': 0})
    (folder / 'val.json').write_text(json.dumps(content))
