"""Cityscapes (Cordts et al. 2016): images, boxes from polygons or instance ids, recorded speeds."""
from __future__ import annotations

from functools import partial
from pathlib import Path

import cv2
import numpy as np

from deadline_perception.datasets.annotation_file import GroundTruthCollector, expected_format, read_json
from deadline_perception.datasets.image_file import image_size, load_image
from deadline_perception.datasets.records import Frame, GroundTruth, Sequence
from deadline_perception.datasets.speed_trace import CITYSCAPES_SUFFIX, read_cityscapes_speed, snippet_stamps_s

IMAGE_FOLDERS = ('leftImg8bit_sequence', 'leftImg8bit')
# cityscapesScripts, helpers/labels.py: the classes with instances that are evaluated, and their ids
CLASS_IDS = {'person': 24, 'rider': 25, 'car': 26, 'truck': 27, 'bus': 28, 'train': 31, 'motorcycle': 32, 'bicycle': 33}
CLASS_NAMES = tuple(CLASS_IDS)
# they have instances but are not evaluated: what is found there is neither a hit nor a false alarm
IGNORED = {'caravan': 'car', 'trailer': 'truck'}
IGNORED_IDS = {29: 'car', 30: 'truck'}
WITHOUT_INSTANCES = (
    'unlabeled', 'ego vehicle', 'rectification border', 'out of roi', 'static', 'dynamic', 'ground', 'road', 'sidewalk',
    'parking', 'rail track', 'building', 'wall', 'fence', 'guard rail', 'bridge', 'tunnel', 'pole', 'polegroup',
    'traffic light', 'traffic sign', 'vegetation', 'terrain', 'sky', 'license plate')
GROUP = 'group'


def read_cityscapes(root: Path, split: str = 'val') -> Sequence:
    """Frames of a split in the order of their names, at 17 Hz within a snippet.

    The 30-frame snippets of `leftImg8bit_sequence` are read where they exist, else the single images of
    `leftImg8bit`; frames without annotation have no ground truth. Boxes come from `gtFine`, `*_polygons.json` before
    `*_instanceIds.png`, speeds from `vehicle_sequence` or `vehicle`. The classes are the eight that the data set's own
    evaluation of instances has; traffic lights and signs are not among them, because annotators did not tell one from
    the next. Caravans, trailers and groups that were not told apart are crowd regions. A rider is not part of a
    bicycle's box. Polygons of classes that Cityscapes does not have are left out, with one warning that counts them.

    Args:
        root: folder that holds `leftImg8bit` or `leftImg8bit_sequence`.
        split: 'train', 'val' or 'test'.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: the folder holds no image, or a file is not in its format.
    """
    root = Path(root)
    folder = next((root / name / split for name in IMAGE_FOLDERS if (root / name / split).is_dir()), None)
    if folder is None:
        raise FileNotFoundError(f'{root} holds neither {" nor ".join(f"{n}/{split}" for n in IMAGE_FOLDERS)}, expected '
                                f'the root of Cityscapes')
    ending = '_leftImg8bit.png'
    files = sorted(folder.glob(f'*/*{ending}'))
    if not files:
        raise ValueError(f'{folder / "*"} holds no *{ending}, expected city_000000_000000{ending}')
    stems = [file.name[:-len(ending)] for file in files]
    stamps = snippet_stamps_s(stems)
    collector = GroundTruthCollector(str(root))
    frames = []
    for file, stem, stamp_s in zip(files, stems, stamps):
        place = Path(split) / file.parent.name
        frames.append(Frame(stem, round(stamp_s * 1e9), partial(load_image, file), _speed(root, place, stem),
                            _ground_truth(root / 'gtFine' / place, stem, file, collector)))
    collector.report()
    return Sequence(f'cityscapes-{split}', CLASS_NAMES, tuple(frames))


def _speed(root: Path, place: Path, stem: str) -> float | None:
    for folder in ('vehicle_sequence', 'vehicle'):
        file = root / folder / place / (stem + CITYSCAPES_SUFFIX)
        if file.is_file():
            return read_cityscapes_speed(file)
    return None


def _ground_truth(folder: Path, stem: str, image: Path, collector: GroundTruthCollector) -> GroundTruth | None:
    polygons, instances = folder / f'{stem}_gtFine_polygons.json', folder / f'{stem}_gtFine_instanceIds.png'
    if polygons.is_file():
        return _from_polygons(polygons, collector)
    if instances.is_file():
        width, height = image_size(image)
        return collector.collect(*boxes_of_instances(_instance_ids(instances)), width, height)
    return None


def _from_polygons(file: Path, collector: GroundTruthCollector) -> GroundTruth:
    boxes, labels, crowd = [], [], []
    with expected_format(file, 'gtFine polygons'):
        content = read_json(file)
        for item in content['objects']:
            name = item['label']
            if name in WITHOUT_INSTANCES or item.get('deleted') or not item['polygon']:
                continue
            single = name[:-len(GROUP)] if name.endswith(GROUP) else name
            known = IGNORED.get(single, single)
            if known not in CLASS_IDS:
                collector.leave_out(name)
                continue
            corners = np.asarray(item['polygon'], dtype=np.float64).reshape(-1, 2)
            boxes.append([*corners.min(0), *corners.max(0)])
            labels.append(CLASS_NAMES.index(known))
            crowd.append(name != known)
        return collector.collect(boxes, labels, crowd, content['imgWidth'], content['imgHeight'])


def _instance_ids(file: Path) -> np.ndarray:
    ids = cv2.imread(str(file), cv2.IMREAD_UNCHANGED)
    if ids is None or ids.ndim != 2 or ids.dtype != np.uint16:
        found = 'no image' if ids is None else f'{ids.dtype} of shape {ids.shape}'
        raise ValueError(f'{file} holds {found}, expected one 16-bit channel of instance ids')
    return ids


def boxes_of_instances(ids: np.ndarray) -> tuple[list[list[float]], list[int], list[bool]]:
    """Boxes xyxy in px, labels and crowd of an instance id image.

    Args:
        ids: uint16 `[height, width]`: label id * 1000 + number of the instance, or the label id alone for groups and
            for classes without instances.
    """
    names = {number: name for name, number in CLASS_IDS.items()} | IGNORED_IDS
    boxes, labels, crowd = [], [], []
    for value in np.unique(ids).tolist():
        label_id = value // 1000 if value >= 1000 else value
        if label_id in names:
            x, y, width, height = cv2.boundingRect((ids == value).astype(np.uint8))
            boxes.append([float(edge) for edge in (x, y, x + width, y + height)])
            labels.append(CLASS_NAMES.index(names[label_id]))
            crowd.append(value < 1000 or label_id in IGNORED_IDS)
    return boxes, labels, crowd
