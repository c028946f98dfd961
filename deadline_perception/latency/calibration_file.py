"""What a calibrator learnt, kept over a restart in a file that says which network and device it holds for."""
from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from deadline_perception.errors import DeadlinePerceptionError
from deadline_perception.latency.calibration import BoundCalibrator
from deadline_perception.latency.json_file import JsonFileError, read_object, write_text_atomically


class CalibrationMismatch(DeadlinePerceptionError):
    """The state was learnt with another network, device or setting than the one at hand."""


@dataclass(frozen=True)
class CalibrationFile:
    """Where the state of a calibrator lies, and what it holds for.

    Attributes:
        file: JSON file; made with its folder when first saved.
        network_hash: of the network at hand.
        device: processor at hand.
        threads: threads per network operation at hand.
    """

    file: Path
    network_hash: str
    device: str
    threads: int

    def save(self, state: dict[str, float | int]) -> None:
        """Writes what `BoundCalibrator.state` gave, in one step: the file is never half written. Waits for the disk.

        Raises:
            OSError: the file cannot be written.
        """
        write_text_atomically(self.file, json.dumps({**self._origin(), **state}, indent=2) + '\n')

    def load(self, *, alpha: float, eta: float) -> BoundCalibrator:
        """A calibrator that goes on where the file was written.

        Args:
            alpha: target miss ratio wanted.
            eta: step wanted.

        Raises:
            JsonFileError: the file is missing, unreadable, or holds something else.
            CalibrationMismatch: it was written for something else.
        """
        state = read_object(self.file, 'calibrator state')
        expected = {**self._origin(), 'alpha': alpha, 'eta': eta}
        differences = [f'{name} is {state.get(name)!r} in the file and {value!r} here'
                       for name, value in expected.items() if state.get(name) != value]
        if differences:
            raise CalibrationMismatch(f'calibrator state {self.file} does not fit: {"; ".join(differences)}')
        try:
            return BoundCalibrator.from_state(state)
        except ValueError as error:
            raise JsonFileError(f'calibrator state {self.file} cannot be used: {error}') from error

    def _origin(self) -> dict[str, str | int]:
        return {'network_hash': self.network_hash, 'device': self.device, 'threads': self.threads}
