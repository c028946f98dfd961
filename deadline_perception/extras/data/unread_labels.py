"""Labels that lie beside images in a form that no reader takes, so that nobody believes that they were read."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path

_LOOKED_AT = 200  # files of a kind, at most
_TRIED = 5
_HEAD = 4096  # characters
_FILE_NAME = re.compile(r'"file_name": *"([^"]+)"')


def unread_labels(folder: Path) -> str:
    """One line about labels beside the images of a folder, which say what could be read; empty where there are none."""
    places = (
        folder,
        folder / 'labels',
        folder.parent / 'labels',
        folder.parent / 'gt',  # of MOT's img1
        folder.parent / 'labels' / folder.name,
        folder.parent.parent / 'labels' / folder.name,  # of images/val: labels/val
    )

    def is_inside(name: str) -> bool:  # as COCO writes it, from one of two folders
        return (folder / name).is_file() or (
            (folder.parent / name).is_file() and (folder.parent / name).is_relative_to(folder)
        )

    for form, pattern, is_form, remedy in _FORMS:
        for place in dict.fromkeys(places):
            files = list(islice(place.rglob(pattern), _LOOKED_AT)) if place.is_dir() else []
            if any(is_form(file) for file in files[:_TRIED]):
                many = f'{len(files)}' if len(files) < _LOOKED_AT else f'{_LOOKED_AT} and more'
                return f'{folder}: {many} label files in the form of {form} lie in {place} and are not read; {remedy}'
    for file in islice(folder.parent.glob('*.json'), _TRIED):  # of a folder `images` beside it
        if _says('"images"')(file) and any(map(is_inside, _FILE_NAME.findall(_head(file)))):
            return f'{folder}: labels in the form of COCO lie in {file} and are not read; name that as the source'
    return ''


def _first_line(file: Path) -> str:
    try:
        with open(file, encoding='utf-8') as stream:
            return stream.readline(_HEAD)
    except (OSError, UnicodeDecodeError):
        return ''


def _is_numbers(least: int) -> Callable[[Path], bool]:
    def is_row(file: Path) -> bool:
        words = _first_line(file).replace(',', ' ').split()
        try:
            return len([float(word) for word in words]) >= least
        except ValueError:
            return False

    return is_row


def _is_kitti(file: Path) -> bool:
    words = _first_line(file).split()
    return len(words) in (15, 16) and words[0].isalpha()


def _says(*texts: str) -> Callable[[Path], bool]:
    return lambda file: all(text in _head(file) for text in texts)


def _head(file: Path) -> str:
    try:
        with open(file, encoding='utf-8') as stream:
            return stream.read(_HEAD)
    except (OSError, UnicodeDecodeError):
        return ''


# Form, names of its files, what tells it, and what to do.
_FORMS = (
    ('MOT', 'gt.txt', _is_numbers(6), 'convert them to COCO'),
    (
        'YOLO',
        '*.txt',
        _is_numbers(5),
        'name the classes and folders in a data.yaml (names: [...], val: images) and name that as the source',
    ),
    ('KITTI', '*.txt', _is_kitti, 'put images into image_2 and labels into label_2'),
    ('LabelMe', '*.json', _says('"shapes"', '"imagePath"'), 'convert them to COCO'),
    ('CVAT', '*.xml', _says('<annotations>'), 'export them as COCO, YOLO or Pascal VOC'),
    ('CSV', '*.csv', _says('xmin', 'ymin'), 'convert them to COCO'),
)
