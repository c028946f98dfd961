"""Makes sure that a latency profile of this device and network exists: finds a valid one, or has it measured."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from deadline_perception.core.child_command import module_command
from deadline_perception.core.device import (
    DeviceFacts,
    process_environment,
    read_device_facts,
    use_threads,
)
from deadline_perception.core.errors import DeadlinePerceptionError, command_line
from deadline_perception.engines.choice import choose_engine, is_installed
from deadline_perception.engines.segment_run import Network
from deadline_perception.networks.model_reference import (
    find_weights,
    is_set,
    load_network,
)
from deadline_perception.runtime.look_twice import first_look_model
from deadline_perception.timing.profile import LatencyProfile, default_profile_path


class MeasurementFailed(DeadlinePerceptionError):
    """What a command should have measured could not be; what went wrong has been printed."""


@dataclass(frozen=True)
class ProfileAtHand:
    """A valid profile.

    Attributes:
        file: where it lies.
        facts: the device that it belongs to, as the detector node will see it.
        measured: it was measured just now.
    """

    file: Path
    facts: DeviceFacts
    measured: bool


def ensure_profile(weights: Path, device: str, threads: int, shipped: Path) -> ProfileAtHand:
    """Finds the profile of a network, or of a set of models, on this device, also among those shipped in a folder; or
    measures one quickly, in a process of its own. So it does for another network that takes the first look.

    Raises:
        MeasurementFailed: see there.
    """
    found = _ensure_own(weights, device, threads, shipped)
    first_look = first_look_model(weights)
    if first_look:  # whose profile the command above measured as well, where it measured
        ensure_profile(find_weights(first_look), device, threads, shipped)
    return found


def _ensure_own(weights: Path, device: str, threads: int, shipped: Path) -> ProfileAtHand:
    """The profile of the network alone; see `ensure_profile`."""
    use_threads(threads)
    facts = read_device_facts(device, environment={**os.environ, **process_environment(threads)})
    network, _ = load_network(weights, device if is_set(weights) else 'cpu')
    own = default_profile_path(network.config_name, facts)
    for file in (
        own,
        weights.with_suffix('.profile.json')
        if is_set(weights)
        else default_profile_path(network.config_name, facts, shipped),
    ):
        if file.is_file() and _fits(file, network, facts, is_set(weights)):
            return ProfileAtHand(file, facts, False)
    run_quietly(
        'the latency profile could not be measured',
        threads,
        'profile',
        '--quick',
        '--weights',
        str(weights),
        '--device',
        device,
        '--threads',
        str(threads),
        '--out',
        str(own),
    )
    return ProfileAtHand(own, facts, True)


def run_quietly(failure: str, threads: int, *words: str) -> None:
    """Runs `deadline-perception WORDS` in a process of its own, with the settings that a node has on so many threads.

    Raises:
        MeasurementFailed: it ended with another status than 0; begins with the words of `failure`.
    """
    status = subprocess.run(
        module_command('deadline_perception.tools.command_line', *words),
        check=False,
        env={**os.environ, **process_environment(threads)},
        stdout=subprocess.DEVNULL,
    ).returncode
    if status:
        raise MeasurementFailed(
            f'{failure} (status {status}); try: {command_line(shlex.join(words))}'
        )


def _fits(file: Path, network: Network, facts: DeviceFacts, is_set: bool) -> bool:
    try:
        profile = LatencyProfile.load(file)
        if is_set:  # whose models have their own
            engine = network.engine.identity
        elif facts.kind == 'cpu':
            engine = choose_engine(
                'openvino' if is_installed() else 'eager', network, facts
            ).identity
        else:
            from deadline_perception.engines.cuda_graphs import CudaGraphs

            engine = CudaGraphs.identity  # as the node will run it
    except DeadlinePerceptionError:
        return False
    return not profile.scaled_from and not profile.mismatches(
        network_hash=network.network_hash,
        facts=facts,
        input_size=network.input_size,
        engine=engine,
    )
