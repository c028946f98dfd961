"""A very small detector whose segments are prepared once per run, as `deadline-perception profile` prepares them."""

import fcntl
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from made_up_detector import TINY

from deadline_perception.networks.multi_path.shape import HeadConfig

SMALL = replace(
    TINY,
    name='small',
    scales=(1.0,),
    widths=(1.0,),
    pyramid_widths=(1.0,),
    proposals=(5, 20),
    skip_groups=((1,), (), (), ()),
    heads=(HeadConfig(1, (32,)),),
)


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """The folder `name` among the run's temporary ones, which `make` has filled; blocks while another worker does."""
    base = factory.getbasetemp()
    # each worker has a folder of its own in there
    root = base.parent if 'PYTEST_XDIST_WORKER' in os.environ else base
    folder, whole = root / name, root / f'{name}.whole'
    with (root / f'{name}.lock').open('w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a worker that failed half-way
            folder.mkdir()
            make(folder)
            whole.touch()
    return folder


@dataclass(frozen=True)
class Prepared:
    """Weights and, in a cache folder, their segments."""

    weights: Path
    cache: Path
    folder: Path
    images: np.ndarray

    def network(self):
        import torch

        from deadline_perception.networks.multi_path.checkpoint import load_detector

        torch.set_num_threads(1)
        return load_detector(self.weights)


def made_up_images(count: int) -> np.ndarray:
    """Noise `[count, 50, 80, 3]`, coarse enough to survive resizing."""
    blocks = np.random.default_rng(1).integers(0, 256, (count, 5, 8, 3), dtype=np.uint8)
    return blocks.repeat(10, 1).repeat(10, 2)


def write_small(folder: Path) -> Path:
    """Random weights that are certain of something in every image, but not so certain that scores are rounded to 1:
    which of two boxes of the same score comes first, no engine promises."""
    import torch

    from deadline_perception.extras.weights_writer import build_detector, save_detector

    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(1)
        network = build_detector(SMALL, ('vehicle', 'bike'))
        network.rpn.outputs.weight.normal_(std=0.2)
        for head in network.heads.subnets:
            head.classes.weight.normal_(std=0.1)
            head.deltas.weight.normal_(std=0.1)
    save_detector(network, folder / 'small.safetensors')
    return folder / 'small.safetensors'


@pytest.fixture(scope='session')
def prepared_once(tmp_path_factory) -> Prepared:
    pytest.importorskip('openvino')
    from deadline_perception.core.device import read_device_facts
    from deadline_perception.engines.segment_store import default_store_folder, store_origin
    from deadline_perception.extras.preparation.segment_models import SegmentModels
    from deadline_perception.extras.preparation.segments import prepare
    from deadline_perception.extras.preparation.store_writer import StoreWriter

    images = made_up_images(12)

    def make(root: Path) -> None:
        made = Prepared(write_small(root), root / 'cache', root, images)
        network = made.network()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv('XDG_CACHE_HOME', str(made.cache))
            folder = default_store_folder(network.config_name, network.weights_hash)
        store = StoreWriter.resume(folder, store_origin(read_device_facts('cpu')))
        none = SegmentModels(network.weights_hash)
        models = prepare(network, list(images), store, 1, models=none)
        models.save(root / 'small.models')  # who takes them for its weights, names them so

    root = made_once(tmp_path_factory, 'prepared', make)
    (folder,) = (root / 'cache' / 'deadline_perception' / 'engine').iterdir()
    return Prepared(root / 'small.safetensors', root / 'cache', folder, images)


@pytest.fixture
def prepared(prepared_once, tmp_path, monkeypatch) -> Prepared:
    """A copy of the test's own, in the cache folder of this process."""
    cache = tmp_path / 'cache'
    shutil.copytree(prepared_once.cache, cache)
    monkeypatch.setenv('XDG_CACHE_HOME', str(cache))
    folder = cache / prepared_once.folder.relative_to(prepared_once.cache)
    return replace(prepared_once, cache=cache, folder=folder)
