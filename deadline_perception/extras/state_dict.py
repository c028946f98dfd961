"""Weights of others: what `torch.save` wrote, of which nothing is executed, or safetensors, by name."""

from __future__ import annotations

import io
import pickle
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from deadline_perception.core.errors import printable
from deadline_perception.core.untrusted_file import (
    FileRefused,
    read_bytes,
)

if TYPE_CHECKING:
    from torch import Tensor
from deadline_perception.engines.tensor_file import MOST_BYTES, MOST_NAME, read_tensors

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
            or len(name) > MOST_NAME
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
