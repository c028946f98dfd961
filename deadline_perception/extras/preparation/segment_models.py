"""What conversion and quantisation gave for the segments of some weights, kept beside them as `WEIGHTS.quantised`.

So a device compiles, checks and times segments, in seconds, and needs no quantiser: that is done once, where the
weights were made. Models are OpenVINO's IR, its description and its values compressed. Several keys may share a model,
and several models their values, since the same layers serve other sizes of image and numbers of regions. Nothing in the
file is trusted: a segment is checked before it is used, in a process that may end
(`tools/support/segment_preparation.py`). Needs no OpenVINO but to read a model, and to add one; and no torch.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import safetensors.numpy

from deadline_perception.core.decoding import decode
from deadline_perception.core.replaced_file import replace_file
from deadline_perception.core.untrusted_file import MIB, FileRefused, parse_json
from deadline_perception.engines.openvino_library import load_openvino, openvino_core
from deadline_perception.engines.segment_store import Form
from deadline_perception.engines.tensor_file import read_arrays, read_header

_FORMAT = '2'
_MOST_BYTES = 256 * MIB  # of one model, once it is not compressed
_NEAREST = 3  # models of other keys that are tried for one that has none of its own


class SegmentModels:
    """Models by the keys of segments, see the module.

    Args:
        weights_hash: of the weights that they hold.

    Attributes:
        forms: by key, the form and the name of each model that was accurate, the first tried first; where none was, the
            segment runs eagerly.
    """

    def __init__(self, weights_hash: str) -> None:
        self.weights_hash = weights_hash
        self.forms: dict[str, list[tuple[Form, str]]] = {}
        self._parts: dict[str, bytes] = {}  # descriptions and values, compressed, by their hashes

    @classmethod
    def load(cls, file: Path, weights_hash: str) -> SegmentModels:
        """What is kept in a file; nothing where it is absent, or of other weights.

        Raises:
            OSError: the file cannot be read.
            FileRefused: it holds something else.
        """
        models = cls(weights_hash)
        if not file.exists():
            return models
        header = read_header(file)
        if (
            header.metadata.get('format') != _FORMAT
            or header.metadata.get('weights_hash') != weights_hash
        ):
            return models
        arrays = read_arrays(file, header)
        try:
            models.forms = decode(
                parse_json(header.metadata['forms']), dict[str, list[tuple[Form, str]]], 'forms'
            )
            parts = {
                part
                for forms in models.forms.values()
                for _, name in forms
                for part in _split(name)
            }
            models._parts = {part: _bytes(arrays[part]) for part in sorted(parts)}
        except (KeyError, ValueError) as error:
            raise FileRefused(f'it lists no models of segments ({type(error).__name__})') from error
        return models

    def save(self, file: Path) -> None:
        """Writes what `load` reads, whole or not at all.

        Raises:
            OSError: the file cannot be written.
        """
        arrays = {part: np.frombuffer(content, np.uint8) for part, content in self._parts.items()}
        forms = {
            key: [[form.value, name] for form, name in of_key] for key, of_key in self.forms.items()
        }
        metadata = {
            'format': _FORMAT,
            'weights_hash': self.weights_hash,
            'forms': json.dumps(forms),
        }
        replace_file(file, safetensors.numpy.save(arrays, metadata))

    def add(self, key: str, form: Form, model) -> None:
        """Keeps an `openvino.Model` for a key."""
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / 'model.xml'
            load_openvino().serialize(model, place)
            contents = place.read_bytes(), place.with_suffix('.bin').read_bytes()
        parts = list(map(_digest, contents))
        for part, content in zip(parts, contents):
            if part not in self._parts:
                self._parts[part] = zlib.compress(content, 9)
        self.forms.setdefault(key, []).append((form, '.'.join(parts)))

    def join(self, others: SegmentModels) -> None:
        """Takes over what others hold."""
        self.forms |= others.forms
        self._parts |= others._parts

    def of(self, key: str) -> Iterator[tuple[Form, str]]:
        """Form and name of the models of a key, or of those of its segment that share most settings with it."""
        if key in self.forms:
            yield from self.forms[key]
            return
        segment, _, settings = key.partition('@')
        wanted = set(settings.split('-'))
        others = [other for other in self.forms if other.partition('@')[0] == segment]
        others.sort(key=lambda other: -len(wanted & set(other.partition('@')[2].split('-'))))
        distinct = dict.fromkeys(
            pair for other in others for pair in self.forms[other] if pair[0] is Form.INT8
        )
        yield from itertools.islice(distinct, _NEAREST)

    def model(self, name: str):
        """The `openvino.Model` of a name.

        Raises:
            FileRefused: it is larger than any segment.
            RuntimeError: OpenVINO cannot read it.
        """
        description, values = (_inflated(part, self._parts[part]) for part in _split(name))
        return openvino_core().read_model(model=description, weights=values)


def _split(name: str) -> tuple[str, str]:
    """Hashes of a model's description and values."""
    description, _, values = name.partition('.')
    return description, values


def _bytes(array: np.ndarray) -> bytes:
    if array.dtype != np.uint8:
        raise ValueError(f'a part of a model is of {array.dtype}')
    return array.tobytes()


def _inflated(part: str, content: bytes) -> bytes:
    inflater = zlib.decompressobj()
    try:
        inflated = inflater.decompress(content, _MOST_BYTES)
    except zlib.error as error:
        raise FileRefused(f'a model in it is damaged ({error})') from error
    if inflater.unconsumed_tail:
        raise FileRefused(f'a model in it has more than {_MOST_BYTES // MIB} MiB')
    if _digest(inflated) != part:
        raise FileRefused(f'a model in it is damaged ({part} has other content)')
    return inflated


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
