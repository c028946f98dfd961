"""The one reader of tensors on disk, as safetensors.

A file's header, of bounded size, is read first, so that a caller can compare it with what it expects before any tensor
takes memory. Then the file is read once, into memory: whoever rewrites it meanwhile changes nothing that is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypedDict, TypeVar

import numpy as np
import safetensors.numpy
from msgspec import Meta
from safetensors import SafetensorError

from deadline_perception.core.decoding import decode
from deadline_perception.core.errors import printable
from deadline_perception.core.untrusted_file import (
    MIB,
    FileRefused,
    open_file,
    parse_json,
    read_bytes,
)

if TYPE_CHECKING:
    from torch import Tensor

MOST_BYTES = (
    2**32
)  # of weights or of a training state, four times the largest network of this package as float32
_MOST_HEADER_BYTES = (
    4 * MIB
)  # a few hundred tensors with names, a class list and a recipe take a hundredth of it
MOST_NAME = 300  # characters; names of layers have some tens
_Name = Annotated[str, Meta(max_length=MOST_NAME)]


Values = TypeVar('Values')


class TensorFacts(TypedDict):
    """What a header says of one tensor."""

    dtype: str
    shape: list[Annotated[int, Meta(ge=0, lt=2**40)]]


class TensorHeader(NamedTuple):
    """What a safetensors file says of itself.

    Attributes:
        metadata: texts.
        tensors: of each `dtype` and `shape`, by name.
        raw: the header as it is stored.
    """

    metadata: dict[str, str]
    tensors: dict[str, TensorFacts]
    raw: bytes


def read_header(file: Path) -> TensorHeader:
    """The header of a safetensors file; reads no tensor.

    Raises:
        OSError: the file cannot be read.
        FileRefused: it is no safetensors file.
    """
    with open_file(file) as (stream, _):
        size = int.from_bytes(stream.read(8), 'little')
        if size > _MOST_HEADER_BYTES:
            raise FileRefused(f'its header has {size} bytes, expected at most {_MOST_HEADER_BYTES}')
        raw = stream.read(size)
    if len(raw) < size:
        raise FileRefused('it ends within its header')
    try:
        content = parse_json(raw.decode('utf-8'))
    except UnicodeDecodeError:
        raise FileRefused('its header is no text in UTF-8') from None
    content = decode(content, dict, 'header')
    return TensorHeader(
        decode(content.pop('__metadata__', {}), dict[str, str], 'metadata'),
        decode(content, dict[_Name, TensorFacts], 'header'),
        raw,
    )


def read_tensors(file: Path, header: TensorHeader | None = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file, by name, on the CPU.

    Args:
        file: where it lies.
        header: what was read of it before; None to take whatever the file holds.

    Raises:
        OSError: the file cannot be read.
        FileRefused: it is no safetensors file, or has another header than before.
    """
    import safetensors.torch

    return _read(file, header, safetensors.torch.load)


def read_arrays(file: Path, header: TensorHeader | None = None) -> dict[str, np.ndarray]:
    """The same as arrays, of types that NumPy has; arguments and what it raises as above. Needs no torch."""
    return _read(file, header, safetensors.numpy.load)


def _read(
    file: Path, header: TensorHeader | None, load: Callable[[bytes], dict[str, Values]]
) -> dict[str, Values]:
    header = read_header(file) if header is None else header
    values = sum(math.prod(row['shape']) for row in header.tensors.values())
    content = read_bytes(file, min(MOST_BYTES, 8 + len(header.raw) + 8 * values))
    if not content.startswith(header.raw, 8):
        raise FileRefused('it was replaced while it was read')
    try:
        return load(content)
    except (SafetensorError, KeyError, ValueError, RuntimeError, TypeError) as error:
        raise FileRefused(printable(error, 200)) from error
