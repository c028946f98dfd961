"""Networks in memory, each once: tasks that name the same file for the same device and engine share it. Free of ROS."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

from deadline_perception.core.device import read_device_facts
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.engines.segment_run import Network
from deadline_perception.networks.model_reference import ModelKind, ModelReference, load_network

Key: TypeAlias = 'tuple[object, ...]'


class ResidentNetworks:
    """Loads networks, and gives one that somebody still has again while its file stays as it was.

    All who share one run it on one thread, frame after frame. A callable is called each time: what it gives may hold
    something of its camera.
    """

    def __init__(self) -> None:
        self._networks: WeakValueDictionary[Key, Network] = WeakValueDictionary()
        self._weights: dict[Key, Path] = {}
        self._warm: WeakKeyDictionary[Network, set[str]] = WeakKeyDictionary()

    def load(
        self,
        model: str | Path | Network,
        device: str,
        models_folder: Path,
        engine: str,
        classes: str | Sequence[str] = (),
    ) -> tuple[Network, Path]:
        """See `load_network`."""
        threads = read_device_facts(device).threads
        key = network_key(model, device, engine, threads, classes)
        network = self._networks.get(key)
        if network is None:
            network, self._weights[key] = load_network(
                model, device, models_folder, engine, classes
            )
            if key:
                self._networks[key] = network
        return network, self._weights[key]

    def take_cold(self, network: Network, paths: Iterable[ExecutionPath]) -> bool:
        """Whether some of these paths are to be warmed up; not asked for again while the network is shared."""
        if not any(network is known for known in self._networks.values()):
            return True
        warm = self._warm.setdefault(network, set())
        wanted = {str(path) for path in paths}
        is_cold = not wanted <= warm
        warm |= wanted
        return is_cold

    def clear(self) -> None:
        """Gives none of those that are there again."""
        self._networks.clear()


def network_key(
    model: str | Path | Network,
    device: str,
    engine: str,
    threads: int,
    classes: str | Sequence[str],
) -> Key:
    """The same for all who may share a network; empty where each load gives another one."""
    if not isinstance(model, (str, Path)):
        return ()
    if ModelReference.parse(model).kind is ModelKind.CALLABLE:
        return ()
    file = Path(os.path.expanduser(model))
    further = (device, engine, threads, *classes)
    if file.is_file():
        return file.resolve(), file.stat().st_mtime, *further
    return str(model), *further
