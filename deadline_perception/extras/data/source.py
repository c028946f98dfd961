"""Opens whatever a user names as input: a rendered drive, a data set, a video or a bag."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

from deadline_perception.core.annotation_file import read_json
from deadline_perception.core.images.image_file import image_files, read_image_folder
from deadline_perception.core.records import Sequence
from deadline_perception.extras.data.bag import read_bag
from deadline_perception.extras.data.bdd100k import (
    read_bdd100k,
    read_bdd100k_tracks,
    read_bdd100k_video,
)
from deadline_perception.extras.data.cityscapes import IMAGE_FOLDERS, read_cityscapes
from deadline_perception.extras.data.class_names import read_class_mapping, with_mapping
from deadline_perception.extras.data.coco import read_coco
from deadline_perception.extras.rendered_drive.drive import render_drive

VIDEO_ENDINGS = ('.mp4', '.avi', '.mkv', '.mov', '.m4v', '.webm', '.mpg', '.mpeg')
BAG_ENDINGS = ('.mcap', '.db3')
COCO_NAMES = ('val.json', 'test.json', 'annotations.json', 'train.json')
SPLITS = ('val', 'test', 'train')
DRIVE_OPTIONS = {'seconds': float, 'seed': int, 'rate_hz': float, 'width': int, 'height': int}
TRACKS = Path('images') / 'track'
KNOWN = (
    "expected 'drive' (or 'drive:seed=3,seconds=40'), a folder with a COCO file (val.json), the root of "
    'Cityscapes (leftImg8bit) or BDD100K (images/100k, or a folder of images/track), a video, a bag, or a folder '
    'of images'
)
CLASSES_HELP = (
    'JSON or YAML file that renames or merges classes of the data: name to new name, or to null to leave '
    'it out'
)


def open_source(
    text: str,
    *,
    rate_hz: float | None = None,
    split: str | None = None,
    classes: Path | None = None,
) -> Sequence:
    """Opens a source by its name.

    Args:
        text: see `KNOWN`, which errors repeat.
        rate_hz: frames per second: of rendering, of the stamps made up for single images, or of the frames kept of
            anything recorded. None for each format's own (10 Hz where it has none).
        split: of a data set that has splits, None for the first of `SPLITS` that is there.
        classes: see `class_names.read_class_mapping`; without it classes keep their names.

    Raises:
        FileNotFoundError: nothing has that name.
        ValueError: it is of no known kind, or its reader refuses it.
    """
    mapping = None if classes is None else read_class_mapping(classes)
    sequence = _open(text, rate_hz, split)
    return sequence if mapping is None else with_mapping(sequence, mapping)


def _open(text: str, rate_hz: float | None, split: str | None) -> Sequence:
    if rate_hz is not None and not 0 < rate_hz < math.inf:
        raise ValueError(f'rate is {rate_hz} Hz, expected a finite number above 0')
    if text == 'drive' or text.startswith('drive:'):
        options = drive_options(text)
        return render_drive(**(options if rate_hz is None else {**options, 'rate_hz': rate_hz}))
    path = Path(os.path.expanduser(text))
    if not path.exists():
        raise FileNotFoundError(f'source {text!r} does not exist, {KNOWN}')
    made_up_hz = 10.0 if rate_hz is None else rate_hz
    if path.is_file():
        if path.suffix.lower() == '.json':
            return read_coco(path, made_up_hz)
        if path.suffix.lower() in BAG_ENDINGS:
            return thin_out(read_bag(path), rate_hz)
        if path.suffix.lower() in VIDEO_ENDINGS:
            return thin_out(read_bdd100k_video(path), rate_hz)
        raise ValueError(f'source {text!r} ends with {path.suffix!r}, {KNOWN}')
    if (path / 'metadata.yaml').is_file():
        return thin_out(read_bag(path), rate_hz)
    if any((path / folder).is_dir() for folder in IMAGE_FOLDERS):
        return thin_out(read_cityscapes(path, split or _split(path, IMAGE_FOLDERS)), rate_hz)
    if (path / 'images' / '100k').is_dir():
        return read_bdd100k(path, split or _split(path, ('images/100k',)), made_up_hz)
    tracks = _tracks(path)
    if tracks is not None:
        root, *rest = tracks
        return thin_out(
            read_bdd100k_tracks(root, *(rest or [split or _split(root, (str(TRACKS),))])), rate_hz
        )
    annotations = _coco_file(path, split)
    if annotations is not None:
        return read_coco(annotations, made_up_hz)
    bags = sorted(file for ending in BAG_ENDINGS for file in path.glob(f'*{ending}'))
    if len(bags) == 1:
        return thin_out(read_bag(bags[0]), rate_hz)
    # The files of a recorder that was killed are called FOLDER_0 and so on.
    if bags and all(bag.stem.rpartition('_')[0] == path.absolute().name for bag in bags):
        return thin_out(read_bag(path), rate_hz)
    if split is None and image_files(path):
        return read_image_folder(path, made_up_hz)
    looked_for = ', '.join(
        (
            'metadata.yaml',
            *IMAGE_FOLDERS,
            'images/100k',
            str(TRACKS),
            *COCO_NAMES,
            'one .mcap or .db3 file',
            'images',
        )
    )
    raise ValueError(f'folder {text!r} holds none of {looked_for}; {KNOWN}')


def drive_options(text: str) -> dict[str, float | int]:
    """Arguments of `render_drive` in a text such as 'drive:seed=3,seconds=40'.

    Raises:
        ValueError: an option is unknown or no number.
    """
    options: dict[str, float | int] = {}
    for pair in filter(None, text.partition(':')[2].split(',')):
        name, _, value = pair.partition('=')
        if name.strip() not in DRIVE_OPTIONS:
            raise ValueError(
                f'option {name.strip()!r} of source {text!r} is unknown, expected one of '
                f'{", ".join(DRIVE_OPTIONS)}'
            )
        kind = DRIVE_OPTIONS[name.strip()]
        try:
            options[name.strip()] = kind(value)
        except ValueError as error:
            raise ValueError(
                f'option {name.strip()!r} of source {text!r} is {value!r}, expected '
                f'{"a whole number" if kind is int else "a number"}'
            ) from error
    return options


def thin_out(sequence: Sequence, rate_hz: float | None) -> Sequence:
    """The frames next after every multiple of 1 / `rate_hz` (or a hundredth before); all of them for None."""
    if rate_hz is None:
        return sequence
    kept = [sequence.frames[0]]
    due_ns = kept[0].stamp_ns + 1e9 / rate_hz
    for frame in sequence.frames[1:]:
        if frame.stamp_ns >= due_ns - 1e7 / rate_hz:
            kept.append(frame)
            # Due times keep their rhythm, so that the mean rate is right; after a hole it begins anew.
            due_ns += 1e9 / rate_hz
            if due_ns <= frame.stamp_ns:
                due_ns = frame.stamp_ns + 1e9 / rate_hz
    return replace(sequence, frames=tuple(kept))


def _split(root: Path, folders: tuple[str, ...]) -> str:
    for split in SPLITS:
        if any((root / folder / split).is_dir() for folder in folders):
            return split
    raise ValueError(
        f'{root} has none of the splits {", ".join(SPLITS)} under {" or ".join(folders)}'
    )


def _tracks(path: Path) -> tuple[Path | str, ...] | None:
    """Root of BDD100K's tracked videos, then split and video where the path names them; None when it is none."""
    if (path / TRACKS).is_dir():
        return (path,)
    place = path.absolute()
    for root in place.parents:
        if root / TRACKS in (place, place.parent, place.parent.parent):
            return (root, *place.relative_to(root / TRACKS).parts)
    return None


def _coco_file(folder: Path, split: str | None) -> Path | None:
    names = COCO_NAMES if split is None else (f'{split}.json',)
    for name in names:
        if (folder / name).is_file():
            return folder / name
    if split is not None:
        return None
    candidates = [file for file in sorted(folder.glob('*.json')) if _looks_like_coco(file)]
    return candidates[0] if len(candidates) == 1 else None


def _looks_like_coco(file: Path) -> bool:
    try:
        content = read_json(file)
    except ValueError:
        return False
    return isinstance(content, dict) and {'images', 'annotations', 'categories'} <= content.keys()
