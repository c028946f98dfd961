"""Writes what `SegmentStore` reads."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import msgspec

from deadline_perception.core.replaced_file import replace_file
from deadline_perception.engines.segment_store import (
    FORMAT,
    MANIFEST,
    Form,
    Manifest,
    PreparedSegment,
    SegmentStore,
    StoreError,
)


class StoreWriter(SegmentStore):
    """A store that is being filled. Every change is on disk, whole, before the next one begins."""

    @classmethod
    def resume(cls, folder: Path, origin: dict[str, str]) -> StoreWriter:
        """What is there and whole, to be completed; an empty store where nothing can be used.

        Raises:
            OSError: the folder cannot be written.
        """
        try:
            store = cls.load(folder, origin)
        except StoreError:
            store = cls(folder, origin)
            for file in store.folder.glob('*.blob'):
                file.unlink()
        if store._attempt:  # the process that made it has ended meanwhile
            store.failed.append(store._attempt)
            store._attempt = ''
        damaged = [key for key in store.segments if not store._is_whole(key)]
        for key in damaged:
            del store.segments[key]
        store.done = set() if damaged else store.done
        store._save()
        return store

    @classmethod
    def forgive(cls, folder: Path, origin: dict[str, str]) -> None:
        """Forgets which form was being tried: its process was stopped from outside, which says nothing of the form."""
        with contextlib.suppress(StoreError):  # nothing is there yet
            cls.load(folder, origin).leave()

    def begin(self, key: str, form: Form) -> bool:
        """Notes that a form of a segment is being tried; False when an earlier try ended the process."""
        self._attempt = f'{key} {form.value}'
        if self._attempt in self.failed:
            self._attempt = ''
            return False
        self._save()
        return True

    def leave(self) -> None:
        """Notes that nothing is being tried any more: that a user ends the process says nothing of the form."""
        self._attempt = ''
        self._save()

    def add(
        self,
        key: str,
        form: Form,
        *,
        error_db: float,
        time_ms: float,
        eager_ms: float,
        reason: str = '',
        compiled: bytes = b'',
    ) -> None:
        """Keeps a segment and, unless it is eager, its compiled form; see `PreparedSegment`."""
        digest = hashlib.sha256(compiled).hexdigest() if compiled else ''
        file = f'{digest[:16]}.blob' if compiled else ''
        segment = PreparedSegment(
            form, round(error_db, 1), round(time_ms, 3), round(eager_ms, 3), file, digest, reason
        )
        if compiled:
            replace_file(self.folder / file, compiled)
        self.segments[key], self._attempt = segment, ''
        self._save()

    def finish(self, keys: Iterable[str]) -> None:
        """Says that all segments of these keys are there."""
        self.done, self._attempt = self.done | set(keys), ''
        self._save()

    def _save(self) -> None:
        content = Manifest(
            FORMAT, self.origin, self.done, self.failed, self._attempt, self.segments
        )
        plain = msgspec.to_builtins(content, order='deterministic')
        replace_file(self.folder / MANIFEST, json.dumps(plain, indent=1) + '\n')
