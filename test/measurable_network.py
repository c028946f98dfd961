"""A network that commands measure within seconds, and commands as users run them."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_up_detector import TINY

from deadline_perception.core.device import DEFAULT_THREADS, process_environment
from deadline_perception.timing.profile import LatencyProfile, measure_profile


def rough_profile(network) -> LatencyProfile:
    """Times of a network on one grey image, measured in a moment."""
    limits = {'repeats': 2, 'whole_paths': 2, 'path_repeats': 2, 'time_limit_s': 2.0}
    return measure_profile(network, [np.full((48, 64, 3), 90, np.uint8)], **limits)


@pytest.fixture
def network_settings(monkeypatch):
    """What networks need of their process, in this one and those that it starts, which find the networks of tests."""
    settings = {**process_environment(DEFAULT_THREADS), 'PYTHONPATH': str(Path(__file__).parent)}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


def run_command(
    *words: object,
    environment: dict[str, str] | None = None,
    cwd: Path | None = None,
    script: Path | None = None,
    restarts: bool = False,
) -> subprocess.CompletedProcess:
    """Runs `deadline-perception WORDS`, or a script, in a process with the settings that it needs, which takes seconds
    less than without: then it restarts itself with them."""
    program = ['-m', 'deadline_perception.tools.command_line'] if script is None else [script]
    needed = process_environment(DEFAULT_THREADS)
    settings = {name: value for name, value in os.environ.items() if name not in needed}
    if not restarts:
        settings |= needed
    return subprocess.run(
        [sys.executable, *map(str, (*program, *words))],
        capture_output=True,
        text=True,
        env={**settings, 'COLUMNS': '120', **(environment or {})},
        timeout=300,
        check=False,
        cwd=cwd,
    )


@pytest.fixture(scope='session')
def measurable_weights(tmp_path_factory) -> Path:
    """Weights file of a network with every width and skip operator, one number of proposals and one head."""
    from deadline_perception.extras.weights_writer import build_detector, save_detector

    config = replace(TINY, name='measurable', scales=(1.0,), proposals=(5,), heads=TINY.heads[:1])
    file = tmp_path_factory.mktemp('measurable') / 'measurable.safetensors'
    save_detector(build_detector(config, ('vehicle', 'bike')), file)
    return file
