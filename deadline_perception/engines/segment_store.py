"""Prepared segments on disk: one folder per weights, which says what it was made for and whether it is whole. Needs no
torch."""

from __future__ import annotations

import hashlib
import importlib.metadata
import mmap
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated

from msgspec import Meta
from platformdirs import user_cache_path

from deadline_perception.core.device import DeviceFacts
from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.json_file import JsonFileError, read_record
from deadline_perception.core.untrusted_file import MIB, FileRefused, open_file, read_bytes
from deadline_perception.engines.foreign_writer import foreign_writer

FORMAT = 3  # to be raised when the code of a network's segments, or of their preparation, changes what is prepared
LIBRARIES = {'OpenVINO': 'openvino', 'NNCF': 'nncf'}  # by the names that pip installs
MODELS_SUFFIX = '.quantised'  # of the file beside weights that has the models of their segments
_NEEDED = ('OpenVINO',)
MANIFEST = 'segments.json'
_MOST_BYTES = 512 * MIB  # of a compiled segment


class StoreError(DeadlinePerceptionError):
    """Prepared segments are absent, unfinished, damaged, or were made for something else."""


class Form(Enum):
    """What runs a segment."""

    INT8 = '8 bit'
    FLOAT = 'float'  # at the compiler's choice of precision, such as bfloat16
    EXACT = 'float32'  # without layers, such as a selection of boxes: fewer bits gain no time there, and lose places
    EAGER = 'eager'


@dataclass(frozen=True)
class PreparedSegment:
    """How one segment is run, and what was seen when that was decided.

    Attributes:
        form: what runs it.
        error_db: ratio of signal to error of its worst output against the eager one, in dB; 0 where it is eager.
        time_ms: shortest time in this form, on the device that prepared it.
        eager_ms: shortest time of the eager one beside it.
        file: name of the compiled segment in the folder; empty where it is eager.
        sha256: of the file.
        reason: why no faster form is used; empty where none is wanted.
    """

    form: Form
    error_db: float
    time_ms: float
    eager_ms: float
    file: Annotated[str, Meta(pattern=r'^[^/]*\Z')] = ''
    sha256: str = ''
    reason: str = ''


@dataclass(frozen=True)
class Manifest:
    """The file of a store, see `SegmentStore`."""

    format: Annotated[int, Meta(ge=FORMAT, le=FORMAT)]
    origin: dict[str, str]
    done: set[str]
    failed: list[str]
    attempt: str
    segments: dict[str, PreparedSegment]


def default_store_folder(config_name: str, weights_hash: str) -> Path:
    """Where the prepared segments of a network lie: `$XDG_CACHE_HOME/deadline_perception/engine/NAME-WEIGHTS`."""
    return user_cache_path('deadline_perception') / 'engine' / f'{config_name}-{weights_hash}'


def store_origin(facts: DeviceFacts) -> dict[str, str]:
    """What prepared segments hold for beside their weights, by the words that a message uses. Loads no library.

    Args:
        facts: the device.

    Raises:
        StoreError: OpenVINO is not installed.
    """
    origin = {'device': facts.name, 'CPU capability': facts.cpu_capability}
    for name, package in LIBRARIES.items():
        try:
            origin[f'{name} version'] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            if name in _NEEDED:
                raise StoreError(
                    f'{name} is not installed: pip install {" ".join(LIBRARIES.values())}'
                ) from None
            origin[f'{name} version'] = (
                'none'  # segments whose models lie beside the weights need no quantiser
            )
    return origin


class SegmentStore:
    """The prepared segments of one network, as `extras/preparation/store_writer.py` writes them.

    Args:
        folder: where they lie.
        origin: what they hold for, by the words that a message uses.

    Attributes:
        segments: by their keys.
        done: keys that preparation came to an end for: what they need is among the segments.
        failed: forms of segments whose preparation ended the process, each as `KEY FORM`.
    """

    def __init__(self, folder: Path, origin: dict[str, str]) -> None:
        self.folder = Path(folder)
        self.origin = {'network': self.folder.name, **origin}
        self.segments: dict[str, PreparedSegment] = {}
        self.done: set[str] = set()
        self.failed: list[str] = []
        self._attempt = ''

    @classmethod
    def load(cls, folder: Path, origin: dict[str, str]) -> SegmentStore:
        """Reads what is there, finished or not; no compiled segment is read yet.

        Raises:
            StoreError: nothing is there, it cannot be read, it was made for something else, or others may have made it.
        """
        store = cls(folder, origin)
        foreign = foreign_writer(store.folder)
        if foreign:
            raise StoreError(
                f'prepared segments in {folder} are not used, since they are code: {foreign}'
            )
        file = store.folder / MANIFEST
        if not file.exists():
            raise StoreError(f'no segments are prepared in {folder}')
        try:
            content = read_record(file, Manifest, 'list of prepared segments')
        except JsonFileError as error:
            raise StoreError(f'prepared segments in {folder} cannot be used: {error}') from error
        store.segments = content.segments
        store.done = content.done
        store.failed = content.failed
        differences = [
            f'{name} is {content.origin.get(name)!r} there and {value!r} here'
            for name, value in store.origin.items()
            if content.origin.get(name) != value
        ]
        if differences:
            raise StoreError(
                f'prepared segments in {folder} are of another origin: {"; ".join(differences)}'
            )
        store._attempt = content.attempt
        return store

    def check(self, keys: Collection[str] = ()) -> None:
        """Makes sure that segments are there, as they were written.

        Args:
            keys: that are needed; none: whichever were prepared.

        Raises:
            StoreError: some are missing, or a file is damaged.
        """
        if not self.done.issuperset(keys) or not self.done:
            raise StoreError(f'preparing the segments in {self.folder} was not finished')
        damaged = [key for key in self.segments if not self._is_whole(key)]
        if damaged:
            raise StoreError(
                f'{len(damaged)} prepared segments in {self.folder} are damaged, such as {damaged[0]}'
            )

    def compiled(self, key: str) -> bytes:
        """The compiled segment of a key.

        Raises:
            OSError: its file cannot be read.
            FileRefused: it is no ordinary file, or too large.
        """
        return read_bytes(self.folder / self.segments[key].file, _MOST_BYTES)

    def mapped(self, key: str) -> mmap.mmap:
        """The same as pages of its file, read as they are touched. What is written to them, nobody else sees.

        Raises:
            OSError: its file cannot be read, or is empty.
            FileRefused: it is no ordinary file.
        """
        place = self.folder / self.segments[key].file
        with open_file(place) as (file, size):
            if not size:
                raise OSError(f'{place} is empty')
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)

    def _is_whole(self, key: str) -> bool:
        segment = self.segments[key]
        try:
            return (
                not segment.file or hashlib.sha256(self.compiled(key)).hexdigest() == segment.sha256
            )
        except (OSError, FileRefused):
            return False
