"""What conversion and quantisation gave for the segments of some weights, kept beside them as `WEIGHTS.quantised`.

So a device compiles, checks and times segments, in seconds, and needs no quantiser: that is done once, where the
weights were made. Models are OpenVINO's IR, descriptions and values. Several keys may share a model, and several models
their values, since the same layers serve other sizes of image and numbers of regions.

All are compressed as one, since much is repeated between them. Tensors of the weights are not stored, but taken from
`WEIGHTS.safetensors` beside the file. Nothing in the file is trusted: what it inflates to is limited, each part is
compared with its hash, and a segment is checked before it is used, in a process that may end
(`tools/support/segment_preparation.py`). Needs no OpenVINO but to read a model, and to add one; and no torch.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import lzma
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import safetensors.numpy

from deadline_perception.core.decoding import Count, decode
from deadline_perception.core.replaced_file import replace_file
from deadline_perception.core.untrusted_file import MIB, FileRefused, parse_json
from deadline_perception.engines.openvino_library import load_openvino, openvino_core
from deadline_perception.engines.segment_store import Form
from deadline_perception.engines.tensor_file import read_arrays, read_header

_FORMAT = '3'
# Of all models, once they are not compressed, or if more, times the weights; those of `street` are as large as they.
_MOST_BYTES, _MOST_TIMES = 256 * MIB, 8
_LEAST_COPIED = 64  # bytes of a tensor of the weights; shorter ones occur by chance
# Stated here and not in the file, so that no file can ask for a larger dictionary.
_FILTERS = [{'id': lzma.FILTER_LZMA2, 'preset': 9, 'dict_size': 16 * MIB}]
_Content = bytes | memoryview
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
        self._parts: dict[str, _Content] = {}  # descriptions and values, by their hashes

    @classmethod
    def load(cls, file: Path, weights_hash: str) -> SegmentModels:
        """What is kept in a file; nothing where it is absent, of other weights, or of another format.

        Raises:
            OSError: the file cannot be read.
            FileRefused: it holds something else, or more than any network.
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
            sizes = decode(parse_json(header.metadata['sizes']), dict[str, Count], 'sizes')
            tensors = _tensors_beside(file)
            most = max(_MOST_BYTES, _MOST_TIMES * sum(map(len, tensors)))
            content = _inflated(_array(arrays, 'parts', 'uint8'), sum(sizes.values()), most)
            _put_back(tensors, content, _array(arrays, 'copies', 'uint32'))
            models._parts = dict(_parts(memoryview(content), sizes))
            for _, name in itertools.chain.from_iterable(models.forms.values()):
                models._model(name)  # is there
        except FileRefused:
            raise
        except (LookupError, ValueError) as error:
            raise FileRefused(f'it lists no models of segments ({type(error).__name__})') from error
        return models

    def save(self, file: Path) -> None:
        """Writes what `load` reads, whole or not at all.

        Raises:
            OSError: the file cannot be written.
        """
        parts = dict(sorted(self._parts.items()))
        content = bytearray().join(parts.values())
        copies = _cut(_tensors_beside(file), content)
        compressed = lzma.compress(content, lzma.FORMAT_RAW, filters=_FILTERS)
        arrays = {'parts': np.frombuffer(compressed, np.uint8), 'copies': copies}
        forms = {
            key: [[form.value, name] for form, name in of_key] for key, of_key in self.forms.items()
        }
        metadata = {
            'format': _FORMAT,
            'weights_hash': self.weights_hash,
            'forms': json.dumps(forms),
            'sizes': json.dumps({part: len(one) for part, one in parts.items()}),
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
            self._parts[part] = content
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
            RuntimeError: OpenVINO cannot read it.
        """
        description, values = map(bytes, self._model(name))
        return openvino_core().read_model(model=description, weights=values)

    def _model(self, name: str) -> tuple[_Content, _Content]:
        """A model's description and values."""
        description, _, values = name.partition('.')
        return self._parts[description], self._parts[values]


def _tensors_beside(file: Path) -> list[bytes]:
    """The tensors of the weights beside a file, as float32; none where they cannot be read."""
    try:
        tensors = read_arrays(file.with_suffix('.safetensors'))
    except (OSError, FileRefused):
        return []
    return [
        tensor.astype('<f4').tobytes()
        for _, tensor in sorted(tensors.items())
        if tensor.dtype.kind == 'f' and 4 * tensor.size >= _LEAST_COPIED
    ]


def _cut(tensors: list[bytes], content: bytearray) -> np.ndarray:
    """Takes tensors out of the content, with a filling in their place that no number has.

    Returns:
        uint32 `[copies, 2]`: number of a tensor, and the byte where it was.
    """
    copies = []
    for number, tensor in enumerate(tensors):
        place = content.find(tensor)
        while place >= 0:
            content[place : place + len(tensor)] = b'\xff' * len(tensor)
            copies.append((number, place))
            place = content.find(tensor, place + len(tensor))
    return np.array(copies, np.uint32).reshape(-1, 2)


def _put_back(tensors: list[bytes], content: bytearray, copies: np.ndarray) -> None:
    """Undoes `_cut`, the last first.

    Raises:
        FileRefused: that would take long, or go beyond the content.
        LookupError, ValueError: the copies are of something else.
    """
    copied = [(tensors[number], place) for number, place in copies.reshape(-1, 2).tolist()]
    if sum(len(tensor) for tensor, _ in copied) > len(content):
        raise FileRefused('it takes more from the weights than it has')
    for tensor, place in reversed(copied):
        if place + len(tensor) > len(content):
            raise FileRefused('it takes more from the weights than it has')
        content[place : place + len(tensor)] = tensor


def _inflated(compressed: np.ndarray, size: int, most: int) -> bytearray:
    if size > most:
        raise FileRefused(f'its models have {size} bytes, more than {most // MIB} MiB')
    inflater = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=_FILTERS)
    try:
        content = inflater.decompress(compressed.tobytes(), size + 1)
    except lzma.LZMAError as error:
        raise FileRefused(f'a model in it is damaged ({error})') from error
    if len(content) != size:
        raise FileRefused(f'its models have not the {size} bytes that it states')
    return bytearray(content)


def _array(arrays: Mapping[str, np.ndarray], name: str, kind: str) -> np.ndarray:
    if arrays[name].dtype != kind:
        raise ValueError(f'{name} is of {arrays[name].dtype}')
    return arrays[name]


def _parts(content: memoryview, sizes: Mapping[str, int]) -> Iterator[tuple[str, memoryview]]:
    """Hash and content of each part."""
    place = 0
    for part, size in sizes.items():
        one = content[place : place + size]
        if _digest(one) != part:
            raise FileRefused(f'a model in it is damaged ({part} has other content)')
        yield part, one
        place += size


def _digest(content: _Content) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
