"""BDD100K (Yu et al. 2020): single images, detection labels in their old and new form, recorded speeds."""
from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path

from deadline_perception.rendering.drive import CLASS_NAMES
from deadline_perception.datasets.image_file import image_size, load_image
from deadline_perception.datasets.records import Frame, Sequence
from deadline_perception.datasets.speed_trace import NoValidSpeedError, read_bdd100k_trace
from deadline_perception.datasets.ground_truth_repair import TruthCollector

LABELS = {'car': 0, 'truck': 0, 'bus': 0, 'train': 0, 'trailer': 0, 'other vehicle': 0, 'bike': 1, 'bicycle': 1,
          'motor': 2, 'motorcycle': 2, 'traffic light': 3, 'traffic sign': 4}
OTHERS = ('person', 'pedestrian', 'other person', 'rider')  # marked with boxes too, without a counterpart here
LABEL_FILES = ('labels/det_20/det_{split}.json', 'labels/bdd100k_labels_images_{split}.json')
# the image of each video is its tenth second
IMAGE_AT_S = 10.0


def read_bdd100k(root: Path, split: str = 'val', rate_hz: float = 10.0, labels: Path | None = None) -> Sequence:
    """Images of a split in the order of their names, with stamps made up at a fixed rate.

    They come from different videos, so the sequence is a slide show; the speed of a frame is that of its own video
    at the moment of the image. Images that the label file leaves out have no truth. People are left out; so are boxes
    of categories that BDD100K does not have, with one warning that counts them.

    Args:
        root: folder that holds `images/100k`, and where they exist `labels` and `info/100k`.
        split: 'train', 'val' or 'test'.
        rate_hz: of the made-up stamps, > 0.
        labels: label file, None for the new form if it is there, else the old one.

    Raises:
        FileNotFoundError: there is no such folder or label file.
        ValueError: the folder holds no image, or a file is not in its format.
    """
    root = Path(root)
    if not 0 < rate_hz < math.inf:
        raise ValueError(f'rate is {rate_hz} Hz, expected a finite number above 0')
    folder = root / 'images' / '100k' / split
    if not folder.is_dir():
        raise FileNotFoundError(f'{folder} does not exist, expected the images of BDD100K')
    files = sorted(folder.glob('*.jpg'))
    if not files:
        raise ValueError(f'{folder} holds no *.jpg, expected the images of BDD100K')
    if labels is not None and not Path(labels).is_file():
        raise FileNotFoundError(f'{labels} does not exist, expected a BDD100K label file')
    candidates = [Path(labels)] if labels is not None else [root / name.format(split=split) for name in LABEL_FILES]
    label_file = next((file for file in candidates if file.is_file()), None)
    marked = _read_labels(label_file) if label_file else {}
    collector = TruthCollector(str(label_file))
    frames = []
    for index, file in enumerate(files):
        truth = None
        if file.name in marked:
            width, height = image_size(file)
            truth = collector.collect(*_boxes(marked[file.name], label_file, file.name, collector), width,
                                      height)
        frames.append(Frame(file.stem, round(index * 1e9 / rate_hz), partial(load_image, file),
                            _speed(root / 'info' / '100k' / split / f'{file.stem}.json'), truth))
    collector.report()
    return Sequence(f'bdd100k-{split}', CLASS_NAMES, tuple(frames))


def _read_labels(file: Path) -> dict[str, list[dict]]:
    """Objects by image name."""
    try:
        content = json.loads(file.read_text(encoding='utf-8'))
        # exports of the Scalabel tool wrap the list
        rows = content['frames'] if isinstance(content, dict) else content
        return {row['name']: row.get('labels') or [] for row in rows}
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f'{file} is no BDD100K label file: {error!r}') from error


def _boxes(objects: list[dict], file: Path, image: str,
           collector: TruthCollector) -> tuple[list, list[int], list[bool]]:
    boxes, labels, crowd = [], [], []
    for item in objects:
        try:
            name, box = item['category'], item.get('box2d')
            if box is None or name in OTHERS:
                continue
            if name not in LABELS:
                collector.leave_out(name)
                continue
            boxes.append([float(box[edge]) for edge in ('x1', 'y1', 'x2', 'y2')])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f'{file}: an object of {image} has no category or box2d with x1, y1, x2, y2: '
                             f'{error!r}') from error
        labels.append(LABELS[name])
        crowd.append(bool((item.get('attributes') or {}).get('crowd', False)))
    return boxes, labels, crowd


def _speed(file: Path) -> float | None:
    """Speed when the image was taken; None without an info file or when its sensor gave nothing valid."""
    if not file.is_file():
        return None
    try:
        return read_bdd100k_trace(file).speed_mps(IMAGE_AT_S)
    except NoValidSpeedError:
        return None
