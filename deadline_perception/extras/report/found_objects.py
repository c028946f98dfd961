"""Objects that were found in images, kept for other programs: COCO JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from deadline_perception.core.images.annotate import class_name
from deadline_perception.core.replaced_file import replace_file
from deadline_perception.extras.report.live_view import ViewedFrame

COLUMNS = ('image', 'time_s', 'class', 'score', 'left', 'top', 'right', 'bottom', 'id')


class FoundObjects:
    """Gathers the objects of images; `write` makes the two files.

    Args:
        class_names: of the network; their places + 1 are the ids of COCO's categories.

    Attributes:
        counts: objects by class.
        images: that were added.
    """

    def __init__(self, class_names: Sequence[str]) -> None:
        self._class_names = tuple(class_names)
        self._images: list[dict] = []
        self._annotations: list[dict] = []
        self._rows: list[tuple] = []
        self.counts: Counter[str] = Counter()

    @property
    def images(self) -> int:
        return len(self._images)

    def add(self, name: str, frame: ViewedFrame) -> None:
        """Takes the objects of one image.

        Args:
            name: of the image; of a file, its path from the folder of the JSON file, so that it can be trained on.
            frame: with what was found.
        """
        height, width = frame.image_bgr.shape[:2]
        number = len(self._images) + 1
        self._images.append({'id': number, 'file_name': name, 'width': width, 'height': height})
        found = frame.detections
        ids = [*frame.ids] or [None] * len(found)
        for box, label, score, track in zip(
            found.boxes_xyxy_px.tolist(), found.labels.tolist(), found.scores.tolist(), ids
        ):
            left, top, right, bottom = (round(value, 2) for value in box)
            score, kind = round(score, 4), class_name(label, self._class_names)
            self.counts[kind] += 1
            one = {
                'id': len(self._annotations) + 1,
                'image_id': number,
                'category_id': label + 1,
                'iscrowd': 0,
                'bbox': [left, top, round(right - left, 2), round(bottom - top, 2)],
                'area': round((right - left) * (bottom - top), 2),
                'score': score,
            }
            self._annotations.append(one if track is None else {**one, 'track_id': track})
            self._rows.append(
                (name, round(frame.time_s, 4), kind, score, left, top, right, bottom, track)
            )

    def write(self, json_file: Path, csv_file: Path) -> None:
        """Writes both files.

        Raises:
            OSError: they cannot be written.
        """
        categories = [
            {'id': number, 'name': name} for number, name in enumerate(self._class_names, 1)
        ]
        content = {
            'images': self._images,
            'annotations': self._annotations,
            'categories': categories,
        }
        replace_file(json_file, json.dumps(content, allow_nan=False) + '\n')
        table = io.StringIO()
        writer = csv.writer(table, lineterminator='\n')
        writer.writerow(COLUMNS)
        writer.writerows(self._rows)
        # Names of files may be no UTF-8; their bytes stay as they are.
        replace_file(csv_file, table.getvalue().encode(errors='surrogateescape'))
