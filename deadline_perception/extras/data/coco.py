"""Images annotated in the COCO format: one JSON file beside a folder of images."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from deadline_perception.core.errors import printable
from deadline_perception.core.images.image_file import load_image
from deadline_perception.core.untrusted_file import MOST_DIGITS
from deadline_perception.extras.data.annotation_file import expected_format, read_json
from deadline_perception.extras.data.coco_layout import image_paths
from deadline_perception.extras.data.ground_truth import GroundTruthCollector, are_upright
from deadline_perception.extras.data.image_size import image_size
from deadline_perception.extras.data.records import Frame, Sequence, check_class_names


def read_coco(annotations: Path, rate_hz: float = 10.0) -> Sequence:
    """Images in the order of the file, with synthetic stamps at a fixed rate.

    Classes are the file's own, in the order of their ids. Boxes that reach over the image are clipped, boxes outside it
    or without area and objects without a box dropped, with one warning that counts them; so are images that cannot be
    decoded. Images of a file without annotations have no ground truth.

    Args:
        annotations: the JSON file; images are looked for as `coco_layout.image_paths` says.
        rate_hz: of the synthetic stamps, > 0.

    Raises:
        ValueError: the file is no COCO file, an image is missing, lies elsewhere or is of another size than the file
            says, an id, a category's name or an image's file occurs twice, an id refers to nothing, or a box is no box.
        FileNotFoundError: there is no such file.
    """
    annotations = Path(annotations)
    if not annotations.is_file():
        raise FileNotFoundError(f'{annotations} does not exist, expected a COCO annotation file')
    with expected_format(annotations, 'COCO'):
        return _sequence(read_json(annotations), annotations, rate_hz)


def _sequence(content: dict, file: Path, rate_hz: float) -> Sequence:
    images, marked = content['images'], content.get('annotations', [])
    categories = _named_once(content['categories'], marked)
    check_class_names(tuple(category['name'] for category in categories))
    for what, rows in (('image', images), ('annotation', marked), ('category', categories)):
        _refuse_duplicates(file, what, rows, 'id')
    _refuse_duplicates(file, 'image', images, 'file_name')
    names = {
        _number(category['id']): category['name']
        for category in sorted(categories, key=lambda c: _number(c['id']))
    }
    by_image = _by_image(file, images, marked, names)
    pictures = _pictures(file, images)
    numbers = {identity: number for number, identity in enumerate(names)}
    collector = GroundTruthCollector(str(file))
    frames = []
    for index, (image, load_bgr, (width, height)) in enumerate(pictures):
        own = []
        for annotation in by_image[_number(image['id'])]:
            if annotation.get('bbox') in (None, []):
                collector.without_box()
            else:
                own.append(annotation)
        ground_truth = collector.collect(
            [_corners(annotation, file) for annotation in own],
            [numbers[_number(annotation['category_id'])] for annotation in own],
            [_is_crowd(annotation, file) for annotation in own],
            width,
            height,
        )
        frames.append(
            Frame(
                image['file_name'],
                round(index * 1e9 / rate_hz),
                load_bgr,
                None,
                ground_truth if 'annotations' in content else None,
            )
        )
    collector.report()
    return Sequence(
        f'{file.absolute().parent.name}-{file.stem}', tuple(names.values()), tuple(frames)
    )


def _named_once(categories: list[dict], marked: list[dict]) -> list[dict]:
    """Without those that bear another's name and no object, as the root category of Roboflow."""
    used = {_number(annotation['category_id']) for annotation in marked}
    counts = Counter(category['name'] for category in categories)
    kept = []
    for category in reversed(categories):  # of several without objects the last is kept
        name = category['name']
        if counts[name] > 1 and _number(category['id']) not in used:
            counts[name] -= 1
        else:
            kept.append(category)
    return kept[::-1]


def _by_image(
    file: Path, images: list[dict], marked: list[dict], names: dict
) -> dict[object, list[dict]]:
    """The annotations of each image by its id."""
    by_image = defaultdict(list)
    for annotation in marked:
        if _number(annotation['category_id']) not in names:
            raise ValueError(
                f'{file}: annotation {annotation.get("id")} has category {annotation["category_id"]}, '
                f'expected one of {sorted(names)}'
            )
        by_image[_number(annotation['image_id'])].append(annotation)
    strangers = set(by_image) - {_number(image['id']) for image in images}
    if strangers:
        raise ValueError(
            f'{file}: annotations belong to image {min(strangers, key=str)}, which the file does not list'
        )
    return by_image


def _pictures(
    file: Path, images: list[dict]
) -> list[tuple[dict, Callable[[], np.ndarray], tuple[int, int]]]:
    """Each image that can be read, how, and its width and height in px."""
    absolute = [image['file_name'] for image in images if Path(image['file_name']).is_absolute()]
    if absolute:
        raise ValueError(
            f'{file}: image {printable(absolute[0])} is an absolute path, expected one from the folder of '
            f'the annotations'
        )
    paths = image_paths(file, [image['file_name'] for image in images])
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise ValueError(
            f'{file}: {len(missing)} of {len(images)} images are missing, the first is {missing[0]}'
        )
    pictures, corrupt = [], []
    for image, path in zip(images, paths):
        try:
            size = image_size(path)
        except ValueError as error:
            corrupt.append(error)
            continue
        stated = _stated_size(image, size)
        upright = are_upright(file, path, stated)
        pictures.append((image, partial(load_image, path, upright=upright), stated))
    if corrupt:
        warnings.warn(
            f'{file}: {len(corrupt)} of {len(images)} images are left out, the first: {corrupt[0]}',
            stacklevel=4,
        )
    return pictures


def _stated_size(image: dict, stored: tuple[int, int]) -> tuple[int, int]:
    """Width and height in px of the image that boxes are meant for; the stored ones where the file states none."""
    width, height = image.get('width'), image.get('height')
    if not width and not height:
        return stored
    return _number(width), _number(height)


def _number(value: object) -> object:
    """A whole number, as ids and sizes are, also where a tool wrote it as text; any other value as it is."""
    is_number = isinstance(value, str) and value.isascii() and value.isdecimal()
    return int(value) if is_number and len(value) <= MOST_DIGITS else value


def _is_crowd(annotation: dict, file: Path) -> bool:
    value = annotation.get('iscrowd', 0)
    if value in ('0', 0, False, None):
        return False
    if value in ('1', 1, True):
        return True
    raise ValueError(
        f'{file}: annotation {annotation.get("id")} has iscrowd {value!r}, expected 0 or 1'
    )


def _corners(annotation: dict, file: Path) -> tuple[float, float, float, float]:
    """Left, top, right, bottom in px of a box that COCO writes as left, top, width, height."""
    box = annotation['bbox']
    if (
        not isinstance(box, list)
        or len(box) != 4
        or not all(isinstance(value, (int, float)) for value in box)
    ):
        raise ValueError(
            f'{file}: annotation {annotation.get("id")} has the box {box!r}, expected four numbers: left, '
            f'top, width and height in px'
        )
    x, y, width, height = box
    return x, y, x + width, y + height


def _refuse_duplicates(file: Path, what: str, rows: list[dict], key: str) -> None:
    values = [_number(row[key]) for row in rows if key in row or what != 'annotation']
    value, count = Counter(values).most_common(1)[0] if values else (None, 1)
    if count > 1:
        raise ValueError(f'{file}: {what} {key} {value} occurs {count} times, expected once')
