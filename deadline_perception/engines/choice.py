"""Which engine runs a network on the CPU: the one that is asked for, or the fastest that is there and ready."""

from __future__ import annotations

from deadline_perception.core.device import DeviceFacts, profile_command
from deadline_perception.engines.eager import Eager, Engine
from deadline_perception.engines.segment_run import Network
from deadline_perception.engines.segment_store import (
    SegmentStore,
    StoreError,
    default_store_folder,
    store_origin,
)

ENGINES = ('auto', 'eager', 'openvino', 'float16')  # the last on a GPU alone


def is_installed() -> bool:
    """True where segments can be prepared."""
    try:
        store_origin(DeviceFacts('any', 'cpu', 1, 1))
    except StoreError:
        return False
    return True


def choose_engine(
    engine: str,
    network: Network,
    facts: DeviceFacts,
    weights: str = 'WEIGHTS',
) -> Engine:
    """The engine for a network on the CPU. Loads OpenVINO where it is chosen.

    Args:
        engine: one of `ENGINES`. `openvino` insists on segments that were prepared, `auto` takes them where they are,
            and otherwise gives an eager engine whose notice says why.
        network: with `config_name` and `weights_hash`.
        facts: the device, and the number of threads.
        weights: file of the network, for the command that is named.

    Raises:
        StoreError: `openvino` is asked for, and is not installed or has no segments that are whole and of this network
            and device.
        ValueError: the engine is none of `ENGINES`.
    """
    if engine not in ENGINES:
        raise ValueError(f'engine is {engine!r}, expected one of {", ".join(ENGINES)}')
    if engine == 'float16':
        raise StoreError(
            'engine is float16, which needs a GPU: expected auto, eager or openvino on a CPU'
        )
    if engine == 'eager':
        return Eager()
    try:
        folder = default_store_folder(network.config_name, network.weights_hash)
        store = SegmentStore.load(folder, store_origin(facts))
        from deadline_perception.engines.compiled_segments import CompiledSegments

        return CompiledSegments(store, facts.threads)
    except StoreError as error:
        reason = f'{error}. Prepare them: {profile_command(weights, facts.kind, facts.threads)}'
        if engine == 'openvino':
            raise StoreError(f'engine is openvino, but {reason}') from error
        return Eager(f'all segments run eagerly, in floating point: {reason}')
