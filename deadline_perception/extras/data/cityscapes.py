"""Cityscapes (Cordts et al. 2016): images, boxes from polygons, recorded speeds."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from deadline_perception.core.images.image_file import load_image
from deadline_perception.extras.data.annotation_file import expected_format, read_json
from deadline_perception.extras.data.ground_truth import GroundTruthCollector, are_upright
from deadline_perception.extras.data.recorded_speed import (
    CITYSCAPES_SUFFIX,
    read_cityscapes_speed,
    snippet_stamps_s,
)
from deadline_perception.extras.data.records import Frame, GroundTruth, Sequence

IMAGE_FOLDERS = ('leftImg8bit_sequence', 'leftImg8bit')
# cityscapesScripts, helpers/labels.py: the classes with instances that are evaluated
CLASS_NAMES = ('person', 'rider', 'car', 'truck', 'bus', 'train', 'motorcycle', 'bicycle')
# they have instances but are not evaluated: what is found there is neither a hit nor a false alarm
IGNORED = {'caravan': 'car', 'trailer': 'truck'}
WITHOUT_INSTANCES = (
    'unlabeled',
    'ego vehicle',
    'rectification border',
    'out of roi',
    'static',
    'dynamic',
    'ground',
    'road',
    'sidewalk',
    'parking',
    'rail track',
    'building',
    'wall',
    'fence',
    'guard rail',
    'bridge',
    'tunnel',
    'pole',
    'polegroup',
    'traffic light',
    'traffic sign',
    'vegetation',
    'terrain',
    'sky',
    'license plate',
)
GROUP = 'group'


def read_cityscapes(root: Path, split: str = 'val') -> Sequence:
    """Frames of a split in the order of their names, at 17 Hz within a snippet.

    The 30-frame snippets of `leftImg8bit_sequence` are read where they exist, else the single images of
    `leftImg8bit`; frames without annotation have no ground truth. Boxes come from the `*_polygons.json` of `gtFine`,
    speeds from `vehicle_sequence` or `vehicle`. The classes are the eight that the data set's own evaluation of
    instances has; traffic lights and signs are not among them, because annotators did not tell one from the next.
    Caravans, trailers and groups that were not distinguished are crowd regions. A rider is not part of a bicycle's box.
    Polygons of classes that Cityscapes does not have are dropped, with one warning that counts them.

    Args:
        root: folder that holds `leftImg8bit` or `leftImg8bit_sequence`.
        split: 'train', 'val' or 'test'.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: the folder holds no image, or a file is not in its format.
    """
    root = Path(root)
    folder = next(
        (root / name / split for name in IMAGE_FOLDERS if (root / name / split).is_dir()), None
    )
    if folder is None:
        raise FileNotFoundError(
            f'{root} holds neither {" nor ".join(f"{n}/{split}" for n in IMAGE_FOLDERS)}, expected '
            f'the root of Cityscapes'
        )
    ending = '_leftImg8bit.png'
    files = sorted(folder.glob(f'*/*{ending}'))
    if not files:
        raise ValueError(f'{folder / "*"} holds no *{ending}, expected city_000000_000000{ending}')
    stems = [file.name[: -len(ending)] for file in files]
    stamps = snippet_stamps_s(stems)
    collector = GroundTruthCollector(str(root))
    frames = []
    for file, stem, stamp_s in zip(files, stems, stamps):
        place = Path(split) / file.parent.name
        polygons = root / 'gtFine' / place / f'{stem}_gtFine_polygons.json'
        annotated = polygons.is_file() and split != 'test'  # whose published files hold no objects
        frames.append(
            Frame(
                stem,
                round(stamp_s * 1e9),
                partial(load_image, file),
                _speed(root, place, stem),
                _ground_truth(polygons, file, collector) if annotated else None,
            )
        )
    collector.report()
    return Sequence(f'cityscapes-{split}', CLASS_NAMES, tuple(frames))


def _speed(root: Path, place: Path, stem: str) -> float | None:
    for folder in ('vehicle_sequence', 'vehicle'):
        file = root / folder / place / (stem + CITYSCAPES_SUFFIX)
        if file.is_file():
            return read_cityscapes_speed(file)
    return None


def _ground_truth(file: Path, image: Path, collector: GroundTruthCollector) -> GroundTruth:
    boxes, labels, crowd = [], [], []
    with expected_format(file, 'gtFine polygons'):
        content = read_json(file)
        for item in content['objects']:
            name = item['label']
            if name in WITHOUT_INSTANCES or item.get('deleted') or not item['polygon']:
                continue
            single = name[: -len(GROUP)] if name.endswith(GROUP) else name
            known = IGNORED.get(single, single)
            if known not in CLASS_NAMES:
                collector.leave_out(name)
                continue
            corners = np.asarray(item['polygon'], dtype=np.float64).reshape(-1, 2)
            boxes.append([*corners.min(0), *corners.max(0)])
            labels.append(CLASS_NAMES.index(known))
            crowd.append(name != known)
        size = content['imgWidth'], content['imgHeight']
        are_upright(file, image, size)  # or refused: copies of another size are made often
        return collector.collect(boxes, labels, crowd, *size)
