"""What the hashes of a network follow from: its shape and its weights. Needs no torch."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterable

import numpy as np

from deadline_perception.engines.segment_run import Network


class ShapedNetwork(Network):
    """A network whose times depend on a shape that JSON can hold."""

    @property
    @abstractmethod
    def shape(self) -> object:
        """All that decides execution times, as JSON can hold it."""

    @property
    def variant(self) -> list[str]:
        """What execution times depend on beside the shape, and accuracy hardly, such as the precision."""
        return []

    @property
    def network_hash(self) -> str:  # type: ignore[override]  # as `Network` allows
        """Identifies the shape, on which execution times depend; weights of the same shape share it."""
        return _digest([self.shape, self.variant] if self.variant else self.shape)

    def hash_with(self, weights: Iterable[tuple[str, np.ndarray]]) -> str:
        """Identifies shape and weights, on which accuracy depends.

        Args:
            weights: by name, all of them, always in the same order.
        """
        digest = hashlib.sha256(_digest(self.shape).encode())
        for name, values in weights:
            digest.update(name.encode())
            digest.update(values.tobytes())
        return digest.hexdigest()[:16]


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
