"""Makes sure that a latency profile of this device and network exists: finds a valid one, or has it measured."""
from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from deadline_perception.core.child_command import module_command
from deadline_perception.core.device import DeviceFacts, process_environment, read_device_facts, use_threads
from deadline_perception.core.errors import DeadlinePerceptionError, command_line
from deadline_perception.engines.choice import choose_engine, is_installed
from deadline_perception.networks.model_set.model_reference import is_set, load_weights
from deadline_perception.timing.profile import LatencyProfile, default_profile_path


class ProfilingError(DeadlinePerceptionError):
    """The profile could not be measured."""


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
    measures one quickly, in a process of its own.

    Raises:
        ProfilingError: measuring failed; what went wrong has been printed.
    """
    use_threads(threads)
    environment = {**os.environ, **process_environment(threads)}
    facts = read_device_facts(device, environment=environment)
    network = load_weights(weights, device if is_set(weights) else 'cpu')
    own = default_profile_path(network.config_name, facts)
    for file in (own, weights.with_suffix('.profile.json') if is_set(weights) else
                 default_profile_path(network.config_name, facts, shipped)):
        if file.is_file() and _fits(file, network, facts):
            return ProfileAtHand(file, facts, False)
    words = ['profile', '--quick', '--weights', str(weights), '--device', device, '--threads', str(threads), '--out',
             str(own)]
    command = module_command('deadline_perception.tools.command_line', *words)
    status = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False).returncode
    if status:
        raise ProfilingError(f'the latency profile could not be measured (status {status}); '
                             f'try: {command_line(shlex.join(words))}')
    return ProfileAtHand(own, facts, True)


def _fits(file: Path, network, facts: DeviceFacts) -> bool:
    from deadline_perception.engines.cuda_graphs import CudaGraphs

    try:
        profile = LatencyProfile.load(file)
        engine = CudaGraphs  # as the node will run it
        if hasattr(network, 'models'):  # of a set, each has its own
            engine = network.engine
        elif facts.kind == 'cpu':
            engine = choose_engine('openvino' if is_installed() else 'eager', network, facts)
    except DeadlinePerceptionError:
        return False
    return not profile.scaled_from and not profile.mismatches(network_hash=network.network_hash, facts=facts,
                                                              input_size=network.input_size, engine=engine.identity)
