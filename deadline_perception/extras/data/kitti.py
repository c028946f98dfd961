"""KITTI (Geiger et al. 2012): the object benchmark's single images, and the tracking benchmark's videos with speeds."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import partial
from pathlib import Path

from deadline_perception.core.images.image_file import load_image
from deadline_perception.core.untrusted_file import MIB, read_bytes
from deadline_perception.extras.data.annotation_file import expected_format
from deadline_perception.extras.data.ground_truth import GroundTruthCollector
from deadline_perception.extras.data.image_size import image_files, image_size
from deadline_perception.extras.data.records import Frame, GroundTruth, Sequence

OBJECT_IMAGES, OBJECT_LABELS = 'image_2', 'label_2'
TRACK_IMAGES, TRACK_LABELS, TRACK_SPEEDS = 'image_02', 'label_02', 'oxts'
FOLDERS = {'train': 'training', 'val': 'training', 'test': 'testing'}
# Below what `kitti_folder` takes: those whose labels are read.
IMAGES = tuple(
    f'{folder}{images}' for folder in ('training/', '') for images in (OBJECT_IMAGES, TRACK_IMAGES)
)
# readme.txt of both development kits
CLASS_NAMES = ('Car', 'Van', 'Truck', 'Pedestrian', 'Person_sitting', 'Cyclist', 'Tram', 'Misc')
OTHER_NAMES = {'Person': 'Person_sitting'}  # of the tracking benchmark
IGNORED = 'DontCare'  # a region in which nobody marked what there is
RATE_HZ = 10.0
_FORWARD_SPEED = 8  # column vf of oxts, m/s
_MOST_BYTES = 64 * MIB


def kitti_folder(path: Path, split: str | None = None) -> Path | None:
    """The folder of KITTI that holds `image_2` or `image_02`, for its root, itself, or a sequence of `image_02`."""
    if path.absolute().parent.name == TRACK_IMAGES:
        return path.absolute().parent.parent
    for folder in (path, path / FOLDERS[split or 'train']):
        if any((folder / images).is_dir() for images in (OBJECT_IMAGES, TRACK_IMAGES)):
            return folder
    return None


def read_kitti(path: Path, split: str | None = None, rate_hz: float = 10.0) -> Sequence:
    """Images of a split: single ones with synthetic stamps at a fixed rate, or videos at 10 Hz, a second after each other.

    Regions of `DontCare` are crowd regions of every class. Speeds are those of the GPS unit (`oxts`).

    Args:
        path: the root that holds `training`, that folder itself, or one sequence, `training/image_02/0003`.
        split: 'test' reads `testing`, which has no labels; KITTI has no list of images to validate on.
        rate_hz: of the synthetic stamps of single images, > 0.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: there is no image, or a file is not in its format.
    """
    path = Path(path)
    folder = kitti_folder(path, split)
    if folder is None:
        raise FileNotFoundError(
            f'{path} holds neither {OBJECT_IMAGES} nor {TRACK_IMAGES}, nor {FOLDERS[split or "train"]} with one of '
            f'them; expected the root of KITTI'
        )
    collector = GroundTruthCollector(str(folder))
    if (folder / OBJECT_IMAGES).is_dir():
        name, frames = 'object', _single_images(folder, rate_hz, collector)
    else:
        videos = sorted(place for place in (folder / TRACK_IMAGES).iterdir() if place.is_dir())
        chosen = [video for video in videos if video.absolute() == path.absolute()] or videos
        name = 'tracking' if len(chosen) != 1 else f'tracking-{chosen[0].name}'
        frames = []
        for video in chosen:
            begin_ns = frames[-1].stamp_ns + 10**9 if frames else 0
            frames += _video(folder, video, begin_ns, collector)
    if not frames:
        raise ValueError(f'{folder} holds no images, expected those of KITTI')
    collector.report()
    return Sequence(f'kitti-{name}', CLASS_NAMES, tuple(frames))


def _single_images(folder: Path, rate_hz: float, collector: GroundTruthCollector) -> list[Frame]:
    frames = []
    for index, image in enumerate(image_files(folder / OBJECT_IMAGES)):
        labels = folder / OBJECT_LABELS / f'{image.stem}.txt'
        known = None
        if labels.is_file():
            known = _ground_truth(_rows(labels), image, labels, collector)
        stamp_ns = round(index * 1e9 / rate_hz)
        frames.append(Frame(image.stem, stamp_ns, partial(load_image, image), None, known))
    return frames


def _video(
    folder: Path, video: Path, begin_ns: int, collector: GroundTruthCollector
) -> list[Frame]:
    labels = folder / TRACK_LABELS / f'{video.name}.txt'
    speeds = folder / TRACK_SPEEDS / f'{video.name}.txt'
    by_frame: dict[int, list[list[str]]] = defaultdict(list)
    if labels.is_file():
        with expected_format(labels, "labels of KITTI's tracking benchmark"):
            for frame, _, *words in _rows(labels):
                by_frame[int(frame)].append(words)
    moving: list[float] = []
    if speeds.is_file():
        with expected_format(speeds, 'oxts of KITTI'):
            moving = [float(words[_FORWARD_SPEED]) for words in _rows(speeds)]
    frames = []
    for image in image_files(video):
        with expected_format(image, 'an image of KITTI, whose name is its number'):
            number = int(image.stem)
        known = None
        if labels.is_file():
            known = _ground_truth(by_frame[number], image, labels, collector)
        speed_mps = moving[number] if number < len(moving) else math.nan
        frames.append(
            Frame(
                f'{video.name}/{image.stem}',
                begin_ns + round(number * 1e9 / RATE_HZ),
                partial(load_image, image),
                max(0.0, speed_mps) if math.isfinite(speed_mps) else None,
                known,
            )
        )
    return frames


def _rows(file: Path) -> list[list[str]]:
    with expected_format(file, 'lines of words of KITTI'):
        text = read_bytes(file, _MOST_BYTES).decode('ascii')
        return [line.split() for line in text.splitlines() if line.strip()]


def _ground_truth(
    rows: list[list[str]], image: Path, file: Path, collector: GroundTruthCollector
) -> GroundTruth:
    """Rows begin with type, truncation, occlusion, angle, and the corners in px."""
    boxes, labels, crowd = [], [], []
    with expected_format(file, 'labels of KITTI'):
        for kind, _, _, _, *rest in rows:
            name = OTHER_NAMES.get(kind, kind)
            meant = CLASS_NAMES if name == IGNORED else (name,)
            corners = [float(value) for value in rest[:4]]
            if len(corners) < 4:
                raise ValueError(f'a row has {len(rest) + 4} words, expected 15 or more')
            if name != IGNORED and name not in CLASS_NAMES:
                collector.leave_out(name)
                continue
            for one in meant:
                boxes.append(corners)
                labels.append(CLASS_NAMES.index(one))
                crowd.append(name == IGNORED)
    return collector.collect(boxes, labels, crowd, *image_size(image))
