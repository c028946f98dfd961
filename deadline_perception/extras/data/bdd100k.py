"""BDD100K (Yu et al. 2020): single images, tracked objects and videos, with recorded speeds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from deadline_perception.core.images.image_file import load_image
from deadline_perception.extras.data.annotation_file import expected_format, read_json
from deadline_perception.extras.data.ground_truth import GroundTruthCollector
from deadline_perception.extras.data.image_size import image_size
from deadline_perception.extras.data.recorded_speed import NoValidSpeedError, read_bdd100k_trace
from deadline_perception.extras.data.records import Frame, GroundTruth, Sequence
from deadline_perception.extras.data.speed_trace import SpeedTrace
from deadline_perception.extras.data.video import read_video

# doc/source/format.rst and configs/det.toml of the data set's own tools
CLASS_NAMES = (
    'pedestrian',
    'rider',
    'car',
    'truck',
    'bus',
    'train',
    'motorcycle',
    'bicycle',
    'traffic light',
    'traffic sign',
)
TRACKED_NAMES = CLASS_NAMES[:8]
OTHER_NAMES = {
    'person': 'pedestrian',
    'motor': 'motorcycle',
    'bike': 'bicycle',
    'caravan': 'car',
    'van': 'car',
}
# marked, yet not evaluated: what is found there is neither a hit nor a false alarm
IGNORED = {'other person': 'pedestrian', 'other vehicle': 'car', 'trailer': 'truck'}
# the new form, and the old one that is read where that is absent
LABEL_FILES = ('labels/det_20/det_{split}.json', 'labels/bdd100k_labels_images_{split}.json')
IMAGE_AT_S = 10.0  # each single image is the tenth second of its video
TRACK_RATE_HZ = 5.0


def read_bdd100k(root: Path, split: str = 'val', rate_hz: float = 10.0) -> Sequence:
    """Images of a split in the order of their names, with synthetic stamps at a fixed rate.

    They come from different videos, so the sequence is a slide show; the speed of a frame is that of its own video
    at the moment of the image. Images that the label file leaves out have no ground truth. The classes are the ten of
    the data set, by their new names; boxes of other categories are dropped, with one warning that counts them.

    Args:
        root: folder that holds `images/100k`, and where they exist `labels` and `info/100k`.
        split: 'train', 'val' or 'test'.
        rate_hz: of the synthetic stamps, > 0.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: the folder holds no image, or a file is not in its format.
    """
    root = Path(root)
    files = _images(root / 'images' / '100k' / split)
    candidates = [root / name.format(split=split) for name in LABEL_FILES]
    label_file = next((file for file in candidates if file.is_file()), None)
    collector = GroundTruthCollector(str(label_file))
    ground_truths = _ground_truths(label_file, files, CLASS_NAMES, collector)
    frames = []
    for index, (file, ground_truth) in enumerate(zip(files, ground_truths)):
        trace = _trace(root, split, file.stem)
        frames.append(
            Frame(
                file.stem,
                round(index * 1e9 / rate_hz),
                partial(load_image, file),
                trace.speed_mps(IMAGE_AT_S) if trace else None,
                ground_truth,
            )
        )
    collector.report()
    return Sequence(f'bdd100k-{split}', CLASS_NAMES, tuple(frames))


def read_bdd100k_tracks(root: Path, split: str = 'val', video: str | None = None) -> Sequence:
    """Images of the tracked videos at 5 Hz, each video a second after the one before; eight of the ten classes.

    Args:
        root: folder that holds `images/track`, and where they exist `labels/box_track_20` and `info/100k`.
        split: 'train', 'val' or 'test'.
        video: one of the split, None for all in the order of their names.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: the folder holds no image, or a file is not in its format.
    """
    root = Path(root)
    folder = root / 'images' / 'track' / split
    if not folder.is_dir():
        raise FileNotFoundError(f'{folder} does not exist, expected the images of BDD100K')
    videos = (
        sorted(place.name for place in folder.iterdir() if place.is_dir())
        if video is None
        else [video]
    )
    collector = GroundTruthCollector(str(root / 'labels' / 'box_track_20' / split))
    frames: list[Frame] = []
    for name in videos:
        begin_s = frames[-1].stamp_ns / 1e9 + 1.0 if frames else 0.0
        files = _images(folder / name)
        labels = root / 'labels' / 'box_track_20' / split / f'{name}.json'
        trace = _trace(root, split, name)
        ground_truths = _ground_truths(
            labels if labels.is_file() else None, files, TRACKED_NAMES, collector
        )
        for file, ground_truth in zip(files, ground_truths):
            number = file.stem[len(name) + 1 :]
            if not (file.stem.startswith(f'{name}-') and number.isdecimal() and int(number) > 0):
                raise ValueError(f'image is called {file}, expected {name}-0000001.jpg and so on')
            time_s = (int(number) - 1) / TRACK_RATE_HZ
            frames.append(
                Frame(
                    file.stem,
                    round((begin_s + time_s) * 1e9),
                    partial(load_image, file),
                    trace.speed_mps(time_s) if trace else None,
                    ground_truth,
                )
            )
    collector.report()
    return Sequence(f'bdd100k-track-{video or split}', TRACKED_NAMES, tuple(frames))


def read_bdd100k_video(file: Path) -> Sequence:
    """Frames of a video; `ROOT/videos/SPLIT/VIDEO.mov` has the speeds of `ROOT/info/100k/SPLIT/VIDEO.json`, if any.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is no video, or the info file is not in its format.
    """
    sequence = read_video(file)
    folder = Path(file).absolute().parent
    trace = (
        _trace(folder.parent.parent, folder.name, Path(file).stem)
        if folder.parent.name == 'videos'
        else None
    )
    if trace is None:
        return sequence
    return replace(
        sequence,
        frames=tuple(
            replace(frame, speed_mps=trace.speed_mps(frame.stamp_ns / 1e9))
            for frame in sequence.frames
        ),
    )


def _images(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise FileNotFoundError(f'{folder} does not exist, expected the images of BDD100K')
    files = sorted(folder.glob('*.jpg'))
    if not files:
        raise ValueError(f'{folder} holds no *.jpg, expected the images of BDD100K')
    return files


def _ground_truths(
    label_file: Path | None,
    images: list[Path],
    class_names: tuple[str, ...],
    collector: GroundTruthCollector,
) -> list[GroundTruth | None]:
    """Known objects of each image, None where the label file does not list it."""
    if label_file is None:
        return [None] * len(images)
    with expected_format(label_file, 'BDD100K labels'):
        content = read_json(label_file)
        # exports of the Scalabel tool wrap the list
        rows = content['frames'] if isinstance(content, dict) else content
        marked = {row['name']: row.get('labels') or [] for row in rows}
    sizes = {image.name: image_size(image) for image in images if image.name in marked}
    with expected_format(label_file, 'BDD100K labels'):
        return [
            collector.collect(
                *_boxes(marked[image.name], class_names, collector), *sizes[image.name]
            )
            if image.name in marked
            else None
            for image in images
        ]


def _boxes(
    objects: list[dict], class_names: tuple[str, ...], collector: GroundTruthCollector
) -> tuple[list, list[int], list[bool]]:
    boxes, labels, crowd = [], [], []
    for item in objects:
        box, category = item.get('box2d'), item['category']
        if box is None:  # a lane or an area
            continue
        name = OTHER_NAMES.get(category, IGNORED.get(category, category))
        if name not in class_names:
            collector.leave_out(category)
            continue
        boxes.append([float(box[edge]) for edge in ('x1', 'y1', 'x2', 'y2')])
        labels.append(class_names.index(name))
        attributes = item.get('attributes') or {}
        crowd.append(
            category in IGNORED or bool(attributes.get('crowd') or attributes.get('ignored'))
        )
    return boxes, labels, crowd


def _trace(root: Path, split: str, video: str) -> SpeedTrace | None:
    """Speeds from the beginning of a video on; None without an info file or when its sensor gave nothing valid."""
    file = root / 'info' / '100k' / split / f'{video}.json'
    try:
        return read_bdd100k_trace(file) if file.is_file() else None
    except NoValidSpeedError:
        return None
