"""Weights on disk: one safetensors file that says which network it belongs to."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from deadline_perception.core.device import check_device
from deadline_perception.core.untrusted_file import FileRefused, parse_json
from deadline_perception.engines import tensor_file
from deadline_perception.engines.tensor_file import TensorHeader
from deadline_perception.engines.torch_network import TorchModule
from deadline_perception.networks.kinds import MULTI_PATH, YOLOX
from deadline_perception.networks.multi_path.configuration import read_shape
from deadline_perception.networks.multi_path.shape import Shape
from deadline_perception.networks.weights_file import (
    CheckpointError,
    read_header,
    read_metadata,
    stated_calibration,
)

_MOST_WEIGHTS = 2**28  # three times those of the multi-path paper's network
_TYPES = ('F16', 'BF16', 'F32')


def detector_of(config: Shape, class_names: tuple[str, ...]) -> Any:
    """The detector of a shape, whatever its family, with random weights."""
    return resolve_name(config.network)(config, class_names)


def load_detector(weights: Path, device: str = 'cpu') -> Any:
    """The detector that a weights file describes, multi-path or YOLOX, in evaluation mode.

    The file's header, of bounded size, is compared with the network that it names before any weight takes memory.

    Raises:
        CheckpointError: the file is missing, truncated, no safetensors file, or belongs to another network.
        DeviceNotFound: the device is not there.
        ValueError: no kind of device has that name.
    """
    check_device(device)
    weights = Path(weights)
    metadata, class_names = read_metadata(weights)
    kind = metadata.get('kind', MULTI_PATH)
    if kind not in (MULTI_PATH, YOLOX):
        raise CheckpointError(
            f'weights file {weights} holds a {reprlib.repr(kind)}, expected a detector'
        )
    try:
        with WithoutMemory():
            network = detector_of(read_shape(parse_json(metadata['config'])), class_names)
        network.score_calibration = stated_calibration(metadata, len(class_names))
    except ValueError as error:
        raise CheckpointError(f'weights file {weights} cannot be used: {error}') from error
    tensors = read_weights(weights, network)
    network.load_state_dict(tensors, assign=True)
    return network.to(device).to(memory_format=torch.channels_last).eval()


class WithoutMemory(TorchFunctionMode):
    """Layers are made of shapes alone; what constructors compute with, such as a list of rates, has values."""

    _MAKERS = (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn)

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        if function in self._MAKERS:
            kwargs['device'] = 'meta'
        if function in (Tensor.normal_, nn.init.normal_):  # would load PyTorch's compiler (170 MB)
            return args[0] if args else kwargs['tensor']
        return function(*args, **kwargs)


def read_weights(weights: Path, network: TorchModule) -> dict[str, Tensor]:
    """The weights of a file, float32, once they are known to be those of a network, which may lie on `meta`.

    Raises:
        CheckpointError: they belong to another network, are not finite, or cannot be read.
    """
    header = read_header(weights)
    metadata = header.metadata
    stored = header.tensors
    if metadata.get('network_hash') != network.network_hash:
        raise CheckpointError(
            f'weights file {weights} was made for network '
            f'{reprlib.repr(metadata.get("network_hash"))}, but configuration '
            f'{network.config_name!r} is now network {network.network_hash}'
        )
    owner = f'configuration {network.config_name!r}'
    problem = f'weights file {weights} does not fit {owner}'
    values = sum(tensor.numel() for tensor in network.state_dict().values())
    if values > _MOST_WEIGHTS:
        raise CheckpointError(
            f'{problem}: it has {values} weights, expected at most {_MOST_WEIGHTS}'
        )
    check_shapes(header, network, weights, owner)
    for name, tensor in stored.items():
        if tensor['dtype'] not in _TYPES:
            raise CheckpointError(
                f'{problem}: {name[:100]} is of type {reprlib.repr(tensor["dtype"])}, expected one '
                f'of {", ".join(_TYPES)}'
            )
    return {name: tensor.float() for name, tensor in finite_tensors(weights, header).items()}


def finite_tensors(weights: Path, header: TensorHeader) -> dict[str, Tensor]:
    """The tensors of a file whose header was found to be the right one.

    Raises:
        CheckpointError: they cannot be read, or one is not finite.
    """
    try:
        tensors = tensor_file.read_tensors(weights, header)
    except (OSError, FileRefused) as error:
        raise CheckpointError(
            f'weights file {weights} cannot be read as safetensors: {error}'
        ) from error
    return check_finite(tensors, weights)


def check_finite(tensors: dict[str, Tensor], weights: Path) -> dict[str, Tensor]:
    """The tensors of a file.

    Raises:
        CheckpointError: one holds NaN or infinity.
    """
    broken = first_not_finite(tensors)
    if broken is not None:
        raise CheckpointError(
            f'weights file {weights} holds NaN or infinity in {broken}, expected finite weights'
        )
    return tensors


def first_not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """Name of the first tensor that holds NaN or infinity."""
    return next(
        (name for name, tensor in tensors.items() if not torch.isfinite(tensor).all()), None
    )


def check_shapes(
    header: TensorHeader,
    network: nn.Module,
    weights: Path,
    owner: str,
) -> None:
    """Makes sure that a file holds exactly the tensors of a network, which `owner` describes.

    Raises:
        CheckpointError: a tensor is missing, has another shape, or belongs to no layer.
    """
    shapes = {name: list(tensor.shape) for name, tensor in network.state_dict().items()}
    for name in sorted({*shapes, *header.tensors}):
        found = header.tensors.get(name)
        expected = shapes.get(name)
        if found is None or found['shape'] != expected:
            raise CheckpointError(
                f'weights file {weights} does not fit {owner}: {name[:100]} has the shape '
                f'{"of nothing" if found is None else reprlib.repr(found["shape"])}, '
                f'expected {expected or "no such weights"}'
            )
