"""YOLO folders as Ultralytics and Roboflow write them: `data.yaml`, images, and a text file of boxes for each."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np

from deadline_perception.core.images.image_file import load_image
from deadline_perception.core.untrusted_file import read_text
from deadline_perception.extras.data.annotation_file import expected_format
from deadline_perception.extras.data.ground_truth import GroundTruthCollector
from deadline_perception.extras.data.image_size import IMAGE_ENDINGS, image_files, image_size
from deadline_perception.extras.data.records import Frame, GroundTruth, Sequence, check_class_names
from deadline_perception.extras.data.unread_images import unread_images
from deadline_perception.extras.plain_yaml import read_yaml

SPLIT_KEYS = {'val': ('val', 'valid'), 'test': ('test',), 'train': ('train',)}
_MOST_CLASSES = 10_000
_OVERSHOOT = 0.01  # of shares that were rounded or moved
_FORM = "YOLO's data.yaml (names, and train, val or test)"


def is_yolo(content: object) -> bool:
    """Whether the content of a YAML file is that of a data.yaml."""
    return (
        isinstance(content, dict)
        and ('names' in content or 'nc' in content)
        and any(key in content for keys in SPLIT_KEYS.values() for key in keys)
    )


def read_yolo(data_yaml: Path, split: str | None = None, rate_hz: float = 10.0) -> Sequence:
    """Images of a split in the order of their names, with synthetic stamps at a fixed rate.

    A label file holds a line for each object: class number, then centre, width and height, or the corners of an outline
    (segments, oriented boxes), as shares of the image. An image without a label file holds nothing, as YOLO counts it;
    where no image has one, objects are not known. Key points and track numbers are dropped.

    Args:
        data_yaml: the file that names classes and folders, which are looked for from its own folder.
        split: 'train', 'val' or 'test'; None for the first of val, test and train that is there.
        rate_hz: of the synthetic stamps, > 0.

    Raises:
        FileNotFoundError: there is no such file, or the split is not there.
        ValueError: the file or a label file is not in its format, or there is no image.
    """
    data_yaml = Path(data_yaml)
    with expected_format(data_yaml, _FORM):
        content = read_yaml(data_yaml)
        if not is_yolo(content):
            raise ValueError(f'it holds {type(content).__name__} without these keys')
        names = _names(content)
        check_class_names(names)
    chosen, places = _split(data_yaml, content, split)
    images = [image for place in places for image in _images(place, data_yaml)]
    unread = [unread_images(place, _files(place)) for place in places]
    if not images:
        said = '; '.join(filter(None, unread)) or 'expected some'
        raise ValueError(
            f'{data_yaml}: split {chosen} has no images in {", ".join(map(str, places))}, {said}'
        )
    for line in filter(None, unread):
        warnings.warn(line, stacklevel=2)
    box_values = 5 if 'kpt_shape' in content else None
    labels = [_label_file(image) for image in images]
    are_known = any(file.is_file() for file in labels)
    collector = GroundTruthCollector(str(data_yaml))
    frames = [
        Frame(
            image.as_posix() if len(places) > 1 else image.relative_to(_root(places[0])).as_posix(),
            round(index * 1e9 / rate_hz),
            partial(load_image, image, upright=True),  # as YOLO draws its boxes
            None,
            _ground_truth(image, file, names, box_values, collector) if are_known else None,
        )
        for index, (image, file) in enumerate(zip(images, labels))
    ]
    collector.report()
    return Sequence(f'{data_yaml.absolute().parent.name}-{chosen}', names, tuple(frames))


def _names(content: dict) -> tuple[str, ...]:
    """The class of each number: a list, a mapping from numbers, or as many as `nc` says."""
    names = content.get('names')
    if isinstance(names, dict):
        if sorted(names) != list(range(len(names))):
            raise ValueError(
                f'names has the numbers {sorted(names, key=str)[:20]}, expected 0, 1, 2 ...'
            )
        return tuple(str(names[number]) for number in range(len(names)))
    if isinstance(names, list):
        return tuple(str(name) for name in names)
    count = int(content['nc'])
    if not 0 < count <= _MOST_CLASSES:
        raise ValueError(f'nc is {count}, expected 1 to {_MOST_CLASSES} classes')
    return tuple(map(str, range(count)))


def _split(data_yaml: Path, content: dict, split: str | None) -> tuple[str, list[Path]]:
    """The name of a split, and the folders or lists of images that it means."""
    wanted = SPLIT_KEYS if split is None else {split: SPLIT_KEYS[split]}
    looked: list[str] = []
    for name, keys in wanted.items():
        entries = next((content[key] for key in keys if content.get(key)), [])
        entries = entries if isinstance(entries, list) else [entries]
        places = [_place(data_yaml, content.get('path'), str(entry)) for entry in entries]
        if entries and all(place is not None for place in places):
            return name, [place for place in places if place is not None]
        looked += map(str, entries)
    raise FileNotFoundError(
        f'{data_yaml} has no images of {split or "val, test or train"}'
        + (f': {", ".join(looked)} does not exist' if looked else '')
    )


def image_folders(data_yaml: Path) -> set[Path]:
    """Folders of the images of all splits that are there.

    Raises:
        OSError, ValueError: the file or a list that it names cannot be read.
    """
    content = read_yaml(data_yaml)
    folders: set[Path] = set()
    for split in SPLIT_KEYS:
        try:
            places = _split(data_yaml, content, split)[1]
        except FileNotFoundError:
            continue
        for place in places:
            folders |= {place} if place.is_dir() else {file.parent for file in _files(place)}
    return folders


def _place(data_yaml: Path, path: object, entry: str) -> Path | None:
    """A folder or list of images where it lies; Roboflow writes `../train/images` for `train/images`."""
    folder = data_yaml.parent
    bases = [folder / str(path), folder] if path else [folder]
    inside = entry[3:] if entry.startswith('../') else entry
    places = [base / word for base in bases for word in (entry, inside)]
    return next((place for place in places if place.exists()), None)


def _root(place: Path) -> Path:
    return place if place.is_dir() else place.parent


def _images(place: Path, data_yaml: Path) -> list[Path]:
    if place.is_dir():
        return image_files(place)
    with expected_format(place, f'a list of images, which {data_yaml} names'):
        images = list(_files(place))
        missing = [image for image in images if not image.is_file()]
        if missing:
            raise ValueError(
                f'{len(missing)} of {len(images)} images are missing, the first is {missing[0]}'
            )
        return [image for image in images if image.suffix.lower() in IMAGE_ENDINGS]


def _files(place: Path) -> Iterable[Path]:
    """All that a folder or a list holds."""
    if place.is_dir():
        return place.rglob('*')
    lines = [line.strip() for line in read_text(place).splitlines()]
    return [place.parent / line for line in lines if line]


def _label_file(image: Path) -> Path:
    """In the folder `labels` that stands for the last `images` of the path; beside the image where there is none."""
    parts = list(image.parts)
    if 'images' in parts[:-1]:
        last = len(parts) - 2 - parts[:-1][::-1].index('images')
        return Path(*parts[:last], 'labels', *parts[last + 1 :]).with_suffix('.txt')
    return image.with_suffix('.txt')


def _ground_truth(
    image: Path,
    file: Path,
    names: tuple[str, ...],
    box_values: int | None,
    collector: GroundTruthCollector,
) -> GroundTruth:
    width, height = image_size(image, upright=True)
    boxes, labels = [], []
    if file.is_file():
        with expected_format(file, "YOLO's labels (class, then shares of the image)"):
            for line in read_text(file).splitlines():
                values = [float(word) for word in line.split()][:box_values]
                if not values:
                    continue
                label = int(values[0])
                if label != values[0] or not 0 <= label < len(names):
                    raise ValueError(f'class is {values[0]:g}, expected 0 to {len(names) - 1}')
                for share in values[1:]:
                    if share < -_OVERSHOOT or share > 1.0 + _OVERSHOOT:
                        raise ValueError(f'a share of the image is {share:g}, expected 0 to 1')
                labels.append(label)
                boxes.append(np.multiply(_corners(values[1:]), (width, height, width, height)))
    return collector.collect(boxes, labels, [False] * len(labels), width, height)


def _corners(values: list[float]) -> tuple[float, float, float, float]:
    """Left, top, right, bottom of a box or an outline, as shares."""
    if len(values) == 4:
        x, y, width, height = values
        return x - width / 2, y - height / 2, x + width / 2, y + height / 2
    if len(values) < 6 or len(values) % 2:
        raise ValueError(
            f'a line has {len(values)} numbers after the class, expected 4 (a box) or the pairs of an outline'
        )
    return min(values[::2]), min(values[1::2]), max(values[::2]), max(values[1::2])
