"""Opens whatever a user names as input: a rendered drive, a data set, a video, a bag or images."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from deadline_perception.core.images.image_file import load_image
from deadline_perception.extras.data.bag import read_bag
from deadline_perception.extras.data.bdd100k import (
    read_bdd100k,
    read_bdd100k_tracks,
    read_bdd100k_video,
)
from deadline_perception.extras.data.cityscapes import IMAGE_FOLDERS, read_cityscapes
from deadline_perception.extras.data.class_maps import read_map
from deadline_perception.extras.data.class_names import with_mapping
from deadline_perception.extras.data.coco import read_coco
from deadline_perception.extras.data.coco_layout import COCO_NAMES, find_annotations
from deadline_perception.extras.data.image_folder import read_image_folder
from deadline_perception.extras.data.image_size import IMAGE_ENDINGS, image_files
from deadline_perception.extras.data.kitti import IMAGES as KITTI_IMAGES
from deadline_perception.extras.data.kitti import kitti_folder, read_kitti
from deadline_perception.extras.data.pascal_voc import IMAGES as VOC_IMAGES
from deadline_perception.extras.data.pascal_voc import is_voc, read_voc
from deadline_perception.extras.data.records import Frame, Sequence
from deadline_perception.extras.data.unread_images import unread_images
from deadline_perception.extras.data.unread_labels import unread_labels
from deadline_perception.extras.data.yolo import SPLIT_KEYS, image_folders, is_yolo, read_yolo
from deadline_perception.extras.plain_yaml import read_yaml
from deadline_perception.extras.rendered_drive.drive import render_drive

VIDEO_ENDINGS = ('.mp4', '.avi', '.mkv', '.mov', '.m4v', '.webm', '.mpg', '.mpeg')
BAG_ENDINGS = ('.mcap', '.db3', '.mcap.zstd', '.db3.zstd')
SPLITS = ('val', 'test', 'train')
DRIVE_OPTIONS = {'seconds': float, 'seed': int, 'rate_hz': float, 'width': int, 'height': int}
TRACKS = Path('images') / 'track'
_MOST_LEVELS = 4  # from images/100k/val, or leftImg8bit/val/aachen, to the root
_MOST_YAML_FILES = 20  # of a folder, that are opened to find YOLO's
CLASSES_HELP = (
    'a shipped map (bdd100k, cityscapes, coco, kitti, open_images, voc) or a JSON or YAML file that renames or merges '
    'classes of the data: name to new name, or to null to leave it out'
)


def open_source(
    text: str,
    *,
    rate_hz: float | None = None,
    split: str | None = None,
    classes: str | Path | None = None,
) -> Sequence:
    """Opens a source by its name.

    Args:
        text: 'drive' with options, or a place that one of `READERS` reads; errors list them.
        rate_hz: frames per second: of rendering, of the stamps synthesised for single images, or of the frames kept of
            anything recorded. None for each format's own (10 Hz where it has none).
        split: of a data set that has splits, None for the first of `SPLITS` that is there.
        classes: see `class_maps.read_map`; without it classes keep their names.

    Raises:
        FileNotFoundError: nothing has that name.
        ValueError: it is of no known kind, or its reader refuses it.
    """
    mapping = None if classes is None else read_map(classes)
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
        raise FileNotFoundError(f'source {text!r} does not exist, {known_sources()}')
    for reader in READERS:
        found = reader.find(path, split)
        if found is not None:
            sequence = found(10.0 if rate_hz is None else rate_hz)
            return thin_out(sequence, rate_hz) if reader.keeps_time else sequence
    if path.is_file():
        raise ValueError(f'source {text!r} ends with {path.suffix!r}, {known_sources()}')
    looked_for = ', '.join(reader.looked_for for reader in READERS if reader.looked_for)
    raise ValueError(
        f'folder {text!r} holds no images ({", ".join(IMAGE_ENDINGS)}), and none of {looked_for}'
    )


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


Read = Callable[[float], Sequence]  # by the rate of synthetic stamps, Hz


@dataclass(frozen=True)
class Reader:
    """One format of sources.

    Attributes:
        name: of the format, for people.
        looked_for: in a folder, what tells it; empty where a file's ending does.
        find: takes a path that exists and the split that is asked for; gives what reads it, None where it is of another
            format.
        keeps_time: its images have times of their own, so that a rate leaves images out.
        image_folders: where labels lie apart from the images, the folders of these, given what `find` was.
    """

    name: str
    looked_for: str
    find: Callable[[Path, str | None], Read | None]
    keeps_time: bool = False
    image_folders: Callable[[Path], Iterable[Path]] | None = None


def known_sources() -> str:
    """What a source may be, for messages."""
    names = ', '.join(dict.fromkeys(reader.name for reader in READERS))
    return f"expected 'drive' (or 'drive:seed=3,seconds=40'), or one of: {names}"


def _bag_file(path: Path, split: str | None) -> Read | None:
    if path.is_file() and path.name.lower().endswith(BAG_ENDINGS):
        return lambda rate_hz: read_bag(path)
    return None


def _bag_folder(path: Path, split: str | None) -> Read | None:
    return (lambda rate_hz: read_bag(path)) if (path / 'metadata.yaml').is_file() else None


def _bags(path: Path, split: str | None) -> Read | None:
    """A folder with one bag file, or with those of a recorder that was killed: FOLDER_0 and so on."""
    bags = sorted(file for ending in BAG_ENDINGS for file in path.glob(f'*{ending}'))
    if len(bags) == 1:
        return lambda rate_hz: read_bag(bags[0])
    if bags and all(bag.stem.rpartition('_')[0] == path.absolute().name for bag in bags):
        return lambda rate_hz: read_bag(path)
    return None


def _video(path: Path, split: str | None) -> Read | None:
    if path.is_file() and path.suffix.lower() in VIDEO_ENDINGS:
        return lambda rate_hz: read_bdd100k_video(path)
    return None


def _image(path: Path, split: str | None) -> Read | None:
    if path.is_file() and path.suffix.lower() in IMAGE_ENDINGS:
        return lambda rate_hz: Sequence(
            path.stem, (), (Frame(path.name, 0, partial(load_image, path, upright=True)),)
        )
    return None


def _cityscapes(path: Path, split: str | None) -> Read | None:
    if any((path / folder).is_dir() for folder in IMAGE_FOLDERS):
        return lambda rate_hz: read_cityscapes(path, split or _split(path, IMAGE_FOLDERS))
    return None


def _bdd100k(path: Path, split: str | None) -> Read | None:
    if (path / 'images' / '100k').is_dir():
        return lambda rate_hz: read_bdd100k(path, split or _split(path, ('images/100k',)), rate_hz)
    return None


def _bdd100k_tracks(path: Path, split: str | None) -> Read | None:
    tracks = _tracks(path)
    if tracks is None:
        return None
    root, *rest = tracks
    return lambda rate_hz: read_bdd100k_tracks(
        root, *(rest or [split or _split(root, (str(TRACKS),))])
    )


def _kitti_object(path: Path, split: str | None) -> Read | None:
    folder = kitti_folder(path, split) if path.is_dir() else None
    if folder is None or (folder / 'image_02').is_dir():
        return None
    return lambda rate_hz: read_kitti(path, split, rate_hz)


def _kitti_tracking(path: Path, split: str | None) -> Read | None:
    folder = kitti_folder(path, split) if path.is_dir() else None
    return None if folder is None else lambda rate_hz: read_kitti(path, split, rate_hz)


def _yolo(path: Path, split: str | None) -> Read | None:
    file = next(_yolo_files(path), None)
    return None if file is None else partial(read_yolo, file, split)


def _yolo_files(path: Path) -> Iterator[Path]:
    files = [path] if path.is_file() else sorted(path.glob('*.yaml')) + sorted(path.glob('*.yml'))
    for file in files if len(files) <= _MOST_YAML_FILES else []:
        if file.suffix.lower() in ('.yaml', '.yml') and _is_yolo(file):
            yield file


def _voc(path: Path, split: str | None) -> Read | None:
    """VOC's own lists of splits, or a folder for each as exports have them; all images where there is neither."""
    if not path.is_dir() or not is_voc(path):
        return None
    lists = path / 'ImageSets' / 'Main'
    if lists.is_dir():
        chosen = split or next((one for one in SPLITS if (lists / f'{one}.txt').is_file()), None)
        return partial(read_voc, path, chosen)
    folders = {
        one: path / name for one in SPLITS for name in SPLIT_KEYS[one] if (path / name).is_dir()
    }
    chosen = split or next(iter(folders), None)
    if folders and chosen not in folders:
        raise FileNotFoundError(f'{path} has no folder of {split}, only {", ".join(folders)}')
    return partial(read_voc, folders.get(chosen, path), None)


def _coco(path: Path, split: str | None) -> Read | None:
    file = find_annotations(path, split) if path.is_dir() else path
    if file is None or file.suffix.lower() != '.json':
        return None
    return partial(read_coco, file)


def _images(path: Path, split: str | None) -> Read | None:
    if split is not None or not path.is_dir():
        return None
    images, unread = image_files(path), unread_images(path, path.rglob('*'))
    if not images:
        if unread:
            raise ValueError(unread)
        return None
    for line in filter(None, (_data_set_around(path) or unread_labels(path), unread)):
        warnings.warn(line, stacklevel=2)
    return partial(read_image_folder, path)


def _data_set_around(path: Path) -> str:
    """One line where a folder of images is one of a data set, whose labels are read by its root; else empty."""
    folder = Path(os.path.abspath(path))
    for root in folder.parents[:_MOST_LEVELS]:
        for reader in READERS:
            if reader.image_folders is None:
                continue
            try:
                images = [Path(os.path.abspath(one)) for one in reader.image_folders(root)]
                is_of_it = any(
                    folder.is_relative_to(one) or one.is_relative_to(folder) for one in images
                )
                is_found = is_of_it and reader.find(root, None) is not None
            except (OSError, ValueError):  # a folder of other things that is only called so
                continue
            if is_found:
                return (
                    f'{path} is read as images without labels; it lies in {root} ({reader.name}): name that as the '
                    'source to have them'
                )
    return ''


def _folders(*names: str) -> Callable[[Path], Iterable[Path]]:
    """Those of these names that a root has."""
    return lambda root: [root / name for name in names if (root / name).is_dir()]


def _yolo_folders(root: Path) -> Iterable[Path]:
    for file in _yolo_files(root):
        yield from image_folders(file)


# The first that knows a path reads it.
READERS = (
    Reader('a bag (.mcap, .db3)', '', _bag_file, keeps_time=True),
    Reader(f'a video ({", ".join(VIDEO_ENDINGS)})', '', _video, keeps_time=True),
    Reader(f'an image ({", ".join(IMAGE_ENDINGS)})', '', _image),
    Reader('a bag (.mcap, .db3)', 'metadata.yaml', _bag_folder, keeps_time=True),
    Reader(
        'the root of Cityscapes',
        ', '.join(IMAGE_FOLDERS),
        _cityscapes,
        keeps_time=True,
        image_folders=_folders(*IMAGE_FOLDERS),
    ),
    Reader('the root of BDD100K', 'images/100k', _bdd100k, image_folders=_folders('images/100k')),
    Reader('a folder of its images/track', str(TRACKS), _bdd100k_tracks, keeps_time=True),
    Reader(
        'the root of KITTI (object or tracking)',
        'training/image_2',
        _kitti_object,
        image_folders=_folders(*KITTI_IMAGES),
    ),
    Reader(
        'the root of KITTI (object or tracking)',
        'training/image_02',
        _kitti_tracking,
        keeps_time=True,
        image_folders=_folders(*KITTI_IMAGES),
    ),
    Reader(
        'a COCO file, or a folder with one (val.json, annotations/instances_val2017.json)',
        ', '.join(COCO_NAMES),
        _coco,
    ),
    Reader(
        "YOLO's data.yaml, or a folder with it", 'data.yaml', _yolo, image_folders=_yolo_folders
    ),
    Reader(
        'a folder of Pascal VOC',
        'Annotations and JPEGImages',
        _voc,
        image_folders=_folders(VOC_IMAGES),
    ),
    Reader('a bag (.mcap, .db3)', 'one .mcap or .db3 file', _bags, keeps_time=True),
    Reader('a folder of images', '', _images),
)


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


def _is_yolo(file: Path) -> bool:
    try:
        return is_yolo(read_yaml(file))
    except (OSError, ValueError):
        return False
