"""The one reader and writer of tensors on disk: safetensors, and what `torch.save` wrote, of which nothing is executed.

A file's header, of bounded size, is read first, so that a caller can compare it with what it expects before any tensor
takes memory. Then the file is read once, into memory: whoever rewrites it meanwhile changes nothing that is used.
"""

from __future__ import annotations

import io
import math
import pickle
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypedDict, TypeVar

import numpy as np
import safetensors.numpy
from msgspec import Meta
from safetensors import SafetensorError

from deadline_perception.core.decoding import decode
from deadline_perception.core.errors import printable
from deadline_perception.core.replaced_file import replace_file
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
_MOST_NAME = 300  # characters; names of layers have some tens
_Name = Annotated[str, Meta(max_length=_MOST_NAME)]
_INSIDE = (
    'model',
    'state_dict',
    'model_state_dict',
)  # where training scripts put the weights in a checkpoint
_SAFE_TORCH = (
    2,
    10,
)  # before it, weights alone could run code or damage memory (CVE-2025-32434, CVE-2026-24747)
_VALUES_PER_BYTE = 8  # of a file's tensors, which may share memory


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
    metadata = decode(content.pop('__metadata__', {}), dict[str, str], 'metadata')
    return TensorHeader(metadata, decode(content, dict[_Name, TensorFacts], 'header'), raw)


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
    if content[8 : 8 + len(header.raw)] != header.raw:
        raise FileRefused('it was replaced while it was read')
    try:
        return load(content)
    except (SafetensorError, KeyError, ValueError, RuntimeError, TypeError) as error:
        raise FileRefused(printable(error, 200)) from error


def read_state_dict(file: Path) -> dict[str, Tensor]:
    """Weights by name, of a safetensors file or of one that `torch.save` wrote, also where they lie within a
    checkpoint.

    Raises:
        OSError: the file cannot be read.
        FileRefused: it holds something else.
    """
    import torch

    file = Path(file)
    content = (
        read_tensors(file)
        if file.suffix == '.safetensors'
        else _unpickled(read_bytes(file, MOST_BYTES))
    )
    for key in _INSIDE:
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    if not isinstance(content, Mapping) or not content:
        raise FileRefused(f'it holds {type(content).__name__}, expected weights by name')
    for name, value in content.items():
        if (
            not isinstance(name, str)
            or not isinstance(value, torch.Tensor)
            or len(name) > _MOST_NAME
        ):
            raise FileRefused(
                f'it holds {type(value).__name__} under {printable(repr(name), 60)}, expected weights by '
                f'name'
            )
        if value.layout is not torch.strided or value.is_quantized or value.is_meta:
            raise FileRefused(
                f'{printable(name, 60)} is sparse, quantised or without values, expected plain weights'
            )
        if value.numel() * value.element_size() > value.untyped_storage().nbytes():
            raise FileRefused(f'{printable(name, 60)} states more values than the file holds')
    if sum(value.numel() for value in content.values()) > _VALUES_PER_BYTE * file.stat().st_size:
        raise FileRefused('its tensors state more values than it holds')
    return dict(content)


def write_tensors(file: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Writes a safetensors file whole or not at all; see `replace_file`.

    Raises:
        OSError: it cannot be written; the file before, if any, stays.
    """
    from safetensors.torch import save

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    replace_file(file, save(plain, dict(metadata)))


def _unpickled(content: bytes) -> object:
    """What `torch.save` wrote, as far as it is tensors, numbers, texts and containers of them."""
    import torch

    version = tuple(int(part) for part in torch.__version__.split('.')[:2])
    if version < _SAFE_TORCH:
        raise FileRefused(
            f'PyTorch {torch.__version__} does not read it safely (CVE-2026-24747), expected '
            f'{".".join(map(str, _SAFE_TORCH))} or later, or weights as safetensors'
        )
    if content[:2] == b'PK':
        _check_archive(content)
    try:
        return torch.load(io.BytesIO(content), map_location='cpu', weights_only=True)
    except pickle.UnpicklingError as error:  # whose words tell how to switch the safety off
        named = re.search(r'GLOBAL (\S+)', str(error))
        beside = f' such as {printable(named[1], 80)}' if named else ''
        raise FileRefused(
            f'it holds more than tensors,{beside} or is damaged; expected a state dict '
            f'(torch.save(model.state_dict(), file)), not a whole module'
        ) from error
    except Exception as error:  # each operation of damaged bytes fails in its own way
        raise FileRefused(
            f'it is cut off, damaged or no file of torch.save ({type(error).__name__})'
        ) from error


def _check_archive(content: bytes) -> None:
    """Makes sure that nothing in an archive is larger than it is there: `torch.save` compresses nothing."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise FileRefused('it is cut off or a damaged archive') from error
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries) or sum(
        entry.file_size for entry in entries
    ) > len(content):
        raise FileRefused(
            'its parts are compressed or overlap, expected them as torch.save writes them'
        )
