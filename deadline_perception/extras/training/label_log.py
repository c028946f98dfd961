"""What detectors saw in many images, on disk image by image, so that a long run can be killed and gone on with."""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.untrusted_file import parse_json
from deadline_perception.extras.training.line_log import named_errors, open_lines


class LabelLogError(DeadlinePerceptionError):
    """A log of another run, or none."""


@dataclass(frozen=True, eq=False)
class SeenImage:
    """One image as the detectors saw it.

    Attributes:
        size: width and height in px; (0, 0) where it could not be read.
        found: by each detector; empty where it could not be read.
        unreadable: why it could not be read; empty where it could.
    """

    size: tuple[int, int]
    found: tuple[Detections, ...]
    unreadable: str = ''


class LabelLog:
    """A file with one line for each image, in their order, behind a line that identifies the run.

    A last line that was cut, by a kill or a full disk, is dropped as the file is opened again.

    Args:
        file: made where it does not exist.
        facts: all that the lines depend on: images, detectors, classes.

    Attributes:
        file: where it lies.
        count: images that are in it.

    Raises:
        LabelLogError: the file is another run's.
        LogInUse: another run writes it at this moment.
        OSError: it cannot be read or written.
    """

    def __init__(self, file: Path, facts: Sequence[str]) -> None:
        self.file, self.count = file, -1
        head = (
            json.dumps(
                {'labels': hashlib.sha256(json.dumps(list(facts)).encode()).hexdigest()[:16]}
            )
            + '\n'
        )

        def keeps(line: bytes) -> bool:
            if self.count < 0 and line != head.encode():
                raise LabelLogError(
                    f'{file} was begun with other images, models or classes; expected the same ones, '
                    f'or no such file: delete it to begin anew'
                )
            self.count += 1
            return True

        self._stream = open_lines(file, keeps)
        if self.count < 0:
            self._write(head)

    def _write(self, line: str) -> None:
        with named_errors(self.file):
            self._stream.write(line.encode())
            self._stream.flush()
        self.count += 1

    def add(self, seen: SeenImage) -> None:
        """Writes the next image's line."""
        row = {'size': seen.size, 'found': [_rows(one) for one in seen.found]}
        if seen.unreadable:
            row['unreadable'] = seen.unreadable
        self._write(json.dumps(row) + '\n')

    def __iter__(self) -> Iterator[SeenImage]:
        """The images from the first on, one in memory at a time.

        Raises:
            LabelLogError: a line is none that `add` wrote.
        """
        with self.file.open(encoding='utf-8') as lines:
            next(lines)
            for number, line in enumerate(lines):
                try:
                    row = parse_json(line)
                    found = tuple(_detections(rows) for rows in row['found'])
                    width, height = row['size']
                    seen = SeenImage(
                        (operator.index(width), operator.index(height)),
                        found,
                        str(row.get('unreadable', '')),
                    )
                except (ValueError, TypeError, LookupError, AttributeError) as error:
                    raise LabelLogError(
                        f'line {number + 2} of {self.file} is damaged, expected what `label` wrote: '
                        f'delete the file to begin anew'
                    ) from error
                yield seen

    def close(self) -> None:
        """Ends writing; the file stays."""
        with named_errors(self.file):
            self._stream.close()


def _rows(found: Detections) -> list[list[float]]:
    """Corners to a hundredth of a px, score, label."""
    return [
        [*(round(float(value), 2) for value in box), round(float(score), 4), int(label)]
        for box, score, label in zip(found.boxes_xyxy_px, found.scores, found.labels)
    ]


def _detections(rows: list[list[float]]) -> Detections:
    table = np.array(rows, float).reshape(-1, 6)
    return Detections(table[:, :4], table[:, 4], table[:, 5].astype(np.int64))
