"""Measured layers of one device in a file that a killed measurement can be taken up from."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from layers import ConvolutionShape

from deadline_perception.core.device import DeviceFacts
from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.json_file import read_object
from deadline_perception.core.replaced_file import replace_file


class WrongSweepFile(DeadlinePerceptionError):
    """A file of measured layers is damaged, or was measured on another device or with other settings."""


@dataclass(frozen=True)
class MeasuredLayers:
    """Durations of layers on one device; JSON on disk.

    Attributes:
        facts: the device and its settings.
        samples_ms: layer to its durations in ms, in the order of their measurement; added to while measuring.
    """

    facts: DeviceFacts
    samples_ms: dict[ConvolutionShape, list[float]]

    def median_ms(self, shape: ConvolutionShape) -> float:
        """Median duration of a layer in ms.

        Raises:
            ValueError: the layer was not measured.
        """
        if not self.samples_ms.get(shape):
            raise ValueError(f'{shape} was not measured')
        return statistics.median(self.samples_ms[shape])

    def save(self, file: Path) -> None:
        """Writes the file in one step: after a kill there is the old one or the new one."""
        layers = [
            {**asdict(shape), 'samples_ms': [round(sample, 5) for sample in samples]}
            for shape, samples in self.samples_ms.items()
        ]
        lines = ',\n '.join(json.dumps(layer) for layer in layers)
        replace_file(
            file, f'{{"device": {json.dumps(asdict(self.facts))},\n"layers": [\n {lines}\n]}}\n'
        )

    @classmethod
    def load(cls, file: Path) -> MeasuredLayers:
        """Reads what `save` wrote.

        Raises:
            JsonFileError: the file is missing or no JSON object.
            WrongSweepFile: it holds something else.
        """
        record = read_object(file, 'file of measured layers')
        try:
            facts = DeviceFacts(**record['device'])
            samples = {}
            for layer in record['layers']:
                durations = [float(sample) for sample in layer.pop('samples_ms')]
                if not all(0.0 < duration < float('inf') for duration in durations):
                    raise ValueError(f'a duration in {durations} ms is not a finite number above 0')
                samples[ConvolutionShape(**layer)] = durations
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise WrongSweepFile(
                f'file of measured layers {file} is damaged: {error}; delete it'
            ) from error
        return cls(facts, samples)

    @classmethod
    def resume(
        cls, file: Path, facts: DeviceFacts, shapes: Iterable[ConvolutionShape]
    ) -> MeasuredLayers:
        """What a file already holds of these layers; without a file, nothing of each.

        Raises:
            JsonFileError: the file cannot be read.
            WrongSweepFile: it was measured on another device, with other settings, or of other layers.
        """
        layers = list(dict.fromkeys(shapes))
        if not Path(file).exists():
            return cls(facts, {shape: [] for shape in layers})
        found = cls.load(file)
        if found.facts != facts:
            names = [
                name for name, value in asdict(facts).items() if asdict(found.facts)[name] != value
            ]
            raise WrongSweepFile(
                f'file of measured layers {file} is of {found.facts} with another {", ".join(names)}; '
                f'delete it or write elsewhere'
            )
        if set(found.samples_ms) != set(layers):
            raise WrongSweepFile(
                f'file of measured layers {file} holds other layers than asked for; delete it or '
                f'write elsewhere'
            )
        return found
