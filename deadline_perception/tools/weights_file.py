"""Finds the weights that a command is told to use."""
from __future__ import annotations

from pathlib import Path

from deadline_perception.errors import DeadlinePerceptionError, command_line
from deadline_perception.tools.machine_findings import share_folder

DEFAULT_WEIGHTS = Path('models/compact.safetensors')


class WeightsNotFound(DeadlinePerceptionError):
    """There are no weights of that name."""


def find_weights(weights: Path) -> Path:
    """The file itself, or the one of that name that came with the package, whatever the working folder.

    Raises:
        WeightsNotFound: neither exists.
    """
    for file in (weights, share_folder() / weights):
        if file.is_file():
            return file.resolve()
    raise WeightsNotFound(f'weights file {weights} does not exist; expected a safetensors file such as '
                          f'{DEFAULT_WEIGHTS}, which comes with the package, or one that '
                          f'`{command_line("train")}` wrote')
