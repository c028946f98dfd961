"""Pascal VOC (Everingham et al. 2010): one XML file of boxes for each image, as labelImg and CVAT write them too."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from deadline_perception.core.images.image_file import load_image
from deadline_perception.core.untrusted_file import MIB, read_bytes, read_text
from deadline_perception.extras.data.annotation_file import expected_format
from deadline_perception.extras.data.ground_truth import GroundTruthCollector, are_upright
from deadline_perception.extras.data.image_size import image_files, image_size
from deadline_perception.extras.data.records import Frame, Sequence

ANNOTATIONS, IMAGES, LISTS = 'Annotations', 'JPEGImages', Path('ImageSets') / 'Main'
_FORM = 'an annotation of Pascal VOC (XML with annotation/object/bndbox)'
_MOST_BYTES = 8 * MIB

Box = tuple[str, tuple[float, float, float, float], bool]  # class, corners in px, is difficult


def is_voc(folder: Path) -> bool:
    """Whether a folder holds `Annotations` and `JPEGImages`, or images each with an XML file of its name beside it."""
    if (folder / ANNOTATIONS).is_dir():
        return (folder / IMAGES).is_dir()
    return any(image.with_suffix('.xml').is_file() for image in image_files(folder)[:50])


def read_voc(folder: Path, split: str | None = None, rate_hz: float = 10.0) -> Sequence:
    """Images in the order of their names, with synthetic stamps at a fixed rate.

    Classes are those that occur, in the order of the alphabet. Objects marked `difficult` are crowd regions, neither hits
    nor misses, as in the challenge. Pixels are counted from 1 there and from 0 here. An image without an XML file has no
    ground truth.

    Args:
        folder: holds `Annotations` and `JPEGImages` (`VOCdevkit/VOC2012`), or images with XML files beside them.
        split: the images that `ImageSets/Main/SPLIT.txt` lists; None for all.
        rate_hz: of the synthetic stamps, > 0.

    Raises:
        FileNotFoundError: there is no such list.
        ValueError: there is no image, or a file is not in its format.
    """
    folder = Path(folder)
    in_folders = (folder / ANNOTATIONS).is_dir()
    root, place = (folder / IMAGES, folder / ANNOTATIONS) if in_folders else (folder, folder)
    images = {image.relative_to(root): image for image in image_files(root)}
    if split is not None:
        images = _listed(folder / LISTS / f'{split}.txt', images)
    if not images:
        raise ValueError(f'{folder} has no images{f" of {split}" if split else ""}, expected some')
    files = [_annotation(place, name) for name in images]
    marked = [_boxes(file) if file.is_file() else (None, None) for file in files]
    names = tuple(sorted({name for boxes, _ in marked for name, _, _ in boxes or ()}))
    collector = GroundTruthCollector(str(folder))
    frames = []
    for index, (name, file, (boxes, stated)) in enumerate(zip(images, files, marked)):
        image = images[name]
        upright = are_upright(file, image, stated)
        ground_truth = (
            boxes
            if boxes is None
            else collector.collect(
                [box for _, box, _ in boxes],
                [names.index(name) for name, _, _ in boxes],
                [difficult for _, _, difficult in boxes],
                *image_size(image, upright=upright),
            )
        )
        frames.append(
            Frame(
                (name.with_suffix('') if in_folders else name).as_posix(),
                round(index * 1e9 / rate_hz),
                partial(load_image, image, upright=upright),
                None,
                ground_truth,
            )
        )
    collector.report()
    return Sequence(f'{folder.absolute().name}{f"-{split}" if split else ""}', names, tuple(frames))


def _annotation(place: Path, image: Path) -> Path:
    """The file of an image, given its path: where the images have folders, in the same one or beside all others."""
    file = place / image.with_suffix('.xml')
    return file if file.is_file() else place / file.name


def _listed(file: Path, images: dict[Path, Path]) -> dict[Path, Path]:
    if not file.is_file():
        raise FileNotFoundError(f'{file} does not exist, expected the list of images of that split')
    known = {name.with_suffix('').as_posix() for name in images}
    with expected_format(file, 'a list of images of Pascal VOC'):
        lines = [line.strip() for line in read_text(file).splitlines() if line.strip()]
        # Behind a name may stand whether the image holds a class.
        wanted = {line if line in known else line.split()[0]: None for line in lines}
        missing = [name for name in wanted if name not in known]
        if missing:
            raise ValueError(
                f'{file}: {len(missing)} of {len(wanted)} images are missing, the first is {missing[0]}'
            )
    return {
        name: image for name, image in images.items() if name.with_suffix('').as_posix() in wanted
    }


def _boxes(file: Path) -> tuple[list[Box], tuple[int, int] | None]:
    """With width and height of the image that they were drawn on, where the file states them."""
    with expected_format(file, _FORM):
        content = read_bytes(file, _MOST_BYTES)
        if b'<!DOCTYPE' in content or b'<!ENTITY' in content:
            raise ValueError('it declares types or entities, expected plain elements')
        try:
            root = ElementTree.fromstring(content)
        except ElementTree.ParseError as error:
            raise ValueError(f'it is no XML: {error}') from error
        if root.tag != 'annotation':
            raise ValueError(f'its root is {root.tag!r}, expected annotation')
        sides = [root.findtext(f'size/{side}', '') for side in ('width', 'height')]
        are_known = all(side.isascii() and side.isdecimal() and len(side) < 7 for side in sides)
        stated = (int(sides[0]), int(sides[1])) if are_known else (0, 0)
        return [_box(element) for element in root.iter('object')], stated if all(stated) else None


def _box(element: ElementTree.Element) -> Box:
    name = (element.findtext('name') or '').strip()
    edges = [element.findtext(f'bndbox/{edge}') for edge in ('xmin', 'ymin', 'xmax', 'ymax')]
    if not name or None in edges:
        raise ValueError('an object lacks its name or a bndbox with xmin, ymin, xmax, ymax')
    left, top, right, bottom = (float(edge) for edge in edges)
    difficult = (element.findtext('difficult') or '0').strip() == '1'
    return name, (left - 1.0, top - 1.0, right, bottom), difficult
