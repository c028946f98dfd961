"""Where a COCO data set has its annotation file and its images: as the data set itself, and as tools export it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from deadline_perception.extras.data.annotation_file import read_json

COCO_NAMES = ('val.json', 'test.json', 'annotations.json', 'train.json')
# Split -> what it is called, in the order in which they are looked for.
_SPLITS = {
    'val': ('val', 'valid', 'validation'),
    'test': ('test',),
    'train': ('train', 'training'),
}
_PLACES = (
    '{name}.json',
    'annotations/instances_{name}*.json',
    'annotations/{name}*.json',
    '{name}/_annotations.coco.json',  # Roboflow
    '{name}/annotations.json',
    '{name}/labels.json',  # FiftyOne
)
_IMAGE_FOLDERS = ('', 'images', 'data')
_PROBED = 20  # images, of which one tells the folder


def find_annotations(folder: Path, split: str | None) -> Path | None:
    """The annotation file of a split, or of the first that is there; None where there is none, or several others."""
    for name in _SPLITS if split is None else (split,):
        if name == 'train' and split is None and (folder / 'annotations.json').is_file():
            return folder / 'annotations.json'
        for file in _of_split(folder, name):
            return file
    if split is not None:
        return None
    if (folder / 'annotations.json').is_file():
        return folder / 'annotations.json'
    candidates = [
        file
        for place in (folder, folder / 'annotations')
        for file in sorted(place.glob('*.json'))
        if _looks_like_coco(file)
    ]
    return candidates[0] if len(candidates) == 1 else None


def _of_split(folder: Path, split: str) -> Iterator[Path]:
    for name in _SPLITS.get(split, (split,)):
        for place in _PLACES:
            # Of several years the last.
            yield from sorted(folder.glob(place.format(name=name)), reverse=True)


def _looks_like_coco(file: Path) -> bool:
    try:
        content = read_json(file)
    except ValueError:
        return False
    return isinstance(content, dict) and {'images', 'annotations', 'categories'} <= content.keys()


def image_paths(annotations: Path, names: list[str]) -> list[Path]:
    """The images of an annotation file, all relative to the first usual folder that has one of them.

    Args:
        annotations: the file, `annotations/instances_val2017.json` for images in `val2017` or `images/val2017`.
        names: as the file has them; where Windows wrote it, with its separators.
    """
    part = annotations.stem.removeprefix('instances_')
    roots = [annotations.parent]
    if annotations.parent.name == 'annotations':
        roots.append(annotations.parent.parent)
    probed = names[:_PROBED]
    for root in roots:
        for folder in _IMAGE_FOLDERS:
            for place in (root / folder, root / folder / part):
                if any(_in(place, name).is_file() for name in probed):
                    return [_in(place, name) for name in names]
    return [_in(annotations.parent, name) for name in names]


def _in(folder: Path, name: str) -> Path:
    file = folder / name
    return folder / name.replace('\\', '/') if '\\' in name and not file.is_file() else file
