"""What a model string means, in nodes, commands, benchmarks and the Python API; and the network it stands for."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from deadline_perception.core.device import read_device_facts, spread_torch
from deadline_perception.core.errors import DeadlinePerceptionError, command_line
from deadline_perception.core.share_folder import share_folder
from deadline_perception.engines.choice import choose_engine
from deadline_perception.engines.segment_run import Network
from deadline_perception.networks.kinds import (
    EXPORT,
    EXPORT_SUFFIXES,
    SET,
    SET_SUFFIXES,
    load_kind,
    stored_detector,
    weights_kind,
)
from deadline_perception.networks.weights_file import read_header

_TORCH_SUFFIXES = ('.pth', '.pt', '.safetensors', '.bin', '.ckpt')


class ModelNotFound(DeadlinePerceptionError):
    """There is no file, module or callable of that name."""


class ModelKind(Enum):
    """What a model string can stand for."""

    SET = 'a set file'
    EXPORT = 'an exported detector'
    TORCHVISION = 'weights of a detection model of torchvision'
    CALLABLE = 'a callable that makes a network'
    WEIGHTS = 'weights of this package'


@dataclass(frozen=True)
class ModelReference:
    """What a model string means.

    Attributes:
        kind: what it stands for.
        file: that it names; of a callable its module's name. Whether there is one is not looked at.
        detail: name of the architecture, of the callable, or of the one path of the weights that is meant; else empty.
    """

    kind: ModelKind
    file: Path
    detail: str = ''

    @classmethod
    def parse(cls, text: str | Path) -> ModelReference:
        """The meaning of `set.yaml`, `model.onnx`, `ARCHITECTURE:weights.pth`, `package.module:callable`,
        `weights.safetensors`, the name of shipped weights, or one of the last two as `WEIGHTS:PATH`."""
        file = Path(os.path.expanduser(text))
        before, _, after = str(text).partition(':')
        if is_set(file):
            return cls(ModelKind.SET, file)
        if file.suffix.lower() in EXPORT_SUFFIXES:
            return cls(ModelKind.EXPORT, file)
        if Path(after).suffix in _TORCH_SUFFIXES:
            return cls(ModelKind.TORCHVISION, Path(os.path.expanduser(after)), before)
        if after.isidentifier() and all(part.isidentifier() for part in before.split('.')):
            return cls(ModelKind.CALLABLE, Path(before), after)
        return cls(ModelKind.WEIGHTS, Path(os.path.expanduser(before)), after)

    def find(self) -> Callable[..., Any]:
        """The callable that is meant.

        Raises:
            ModelNotFound: there is no such module or callable.
        """
        try:
            found = resolve_name(f'{self.file}:{self.detail}')
        except (ImportError, AttributeError) as error:
            raise ModelNotFound(
                f'{self.file}:{self.detail} is not there, expected package.module:callable: {error}'
            ) from error
        if not callable(found):
            raise ModelNotFound(f'{self.file}:{self.detail} is {found!r:.60}, expected a callable')
        return found


def is_set(file: Path) -> bool:
    """Whether a file describes a set of models, which have engines and profiles of their own."""
    return Path(file).suffix in SET_SUFFIXES


def find_weights(model: str | Path, models_folder: Path | None = None) -> Path:
    """The file itself, whatever it holds, or the one of that name that came with the package.

    Args:
        model: a file, such as `models/street.safetensors` from any folder; or the name of a shipped one.
        models_folder: holds the shipped ones; None: that of the package.

    Raises:
        ModelNotFound: there is neither.
    """
    models_folder = models_folder or share_folder() / 'models'
    file = Path(os.path.expanduser(model))
    for place in (file, models_folder.parent / file, models_folder / f'{model}.safetensors'):
        if place.is_file():
            return place.resolve()
    names = ', '.join(sorted(found.stem for found in models_folder.glob('*.safetensors'))) or 'none'
    raise ModelNotFound(
        f'weights file {model} does not exist; expected a safetensors file such as '
        f'`{command_line("train")}` writes, or one of the shipped models ({names})'
    )


def load_network(
    model: str | Path | Network,
    device: str,
    models_folder: Path | None = None,
    engine: str = 'auto',
    classes: str | Sequence[str] = (),
) -> tuple[Network, Path]:
    """The network that is meant, on the engine that is to run it, and the file of its weights or of its set; for a
    callable, its module's name as a path, and for a network, which is taken as it is, its own name.

    Args:
        model: see `ModelReference.parse`.
        device: `cpu`, `cuda` or `cuda:INDEX`.
        models_folder: see `find_weights`.
        engine: one of `ENGINES`.
        classes: of an exported detector, see `NetworkOptions`; empty: as it says.

    Raises:
        ValueError: classes are named, of a network that names its own.
        ModelNotFound: there is no such file, module or callable.
        StoreError: the engine is asked for by its name and is not ready.
        CheckpointError: the weights cannot be used.
        ModelError: an exported detector, or a model of a set, cannot be used.
    """
    reference = ModelReference.parse(model) if isinstance(model, (str, Path)) else None
    if classes and (reference is None or reference.kind is not ModelKind.EXPORT):
        raise ValueError(
            f'classes are {classes!r:.100}, expected none, as the network names its own'
        )
    if not isinstance(model, (str, Path)):
        return model, Path(model.config_name)
    assert reference is not None
    if reference.kind is ModelKind.SET:
        return load_weights(reference.file, device, engine), reference.file
    if reference.kind is ModelKind.EXPORT:
        return load_kind(EXPORT, reference.file, device, classes), reference.file
    models_folder = models_folder or share_folder() / 'models'
    is_shipped = (
        models_folder / f'{reference.file}.safetensors'
    ).is_file()  # whose path reads like a callable's name
    if reference.kind is ModelKind.CALLABLE and not is_shipped:
        network = reference.find()(device)
        spread_torch()
        if not isinstance(network, Network):
            raise ModelNotFound(f'{model} gives {type(network).__name__}, expected a Network')
        return network, Path(str(model))
    weights = find_weights(
        model if reference.kind is ModelKind.TORCHVISION else reference.file, models_folder
    )
    network = stored_detector(weights) if device == 'cpu' and engine != 'eager' else None
    network = network or load_weights(weights, device)
    use_engine(network, engine, device, weights)
    if reference.detail:
        network.kept_paths = (network.path_space.parse(reference.detail),)
    return network, weights


def load_weights(weights: Path, device: str = 'cpu', engine: str = 'auto') -> Network:
    """The network that a file describes, in evaluation mode; the file itself says which kind it is.

    Args:
        weights: safetensors file, or set of models.
        device: `cpu`, `cuda` or `cuda:INDEX`.
        engine: of the models of a set, one of `ENGINES`; others run eagerly.

    Raises:
        CheckpointError: the file is missing, damaged, or holds a network of no known kind.
        ModelError: a model of a set cannot be used.
        DeviceNotFound: the device is not there.
        ValueError: no kind of device has that name.
    """
    if is_set(weights):
        return load_kind(SET, Path(weights), device, engine)
    return load_kind(weights_kind(read_header(Path(weights)).metadata), weights, device)


def use_engine(
    network: Network,
    engine: str,
    device: str,
    weights: Path,
) -> None:
    """Puts a network of this package on the engine that is asked for: CUDA graphs on a GPU but for `eager`, with
    `float16` after its weights have become that.

    Raises:
        StoreError: it is asked for by its name and is not ready, or the network has no such precision.
    """
    if not device.startswith('cuda'):
        network.engine = choose_engine(engine, network, read_device_facts(device), str(weights))
        return
    if engine == 'float16':
        network.use_float16()
    if engine != 'eager':
        network.use_graphs()
