"""Images in formats that are not read, so that a folder of them is not taken for an empty or a smaller one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from deadline_perception.core.images.coded_image import FORMATS

_ENDINGS = ('.tif', '.tiff', '.gif', '.heic', '.heif', '.avif', '.jp2', '.ppm', '.pgm')


def unread_images(place: Path, files: Iterable[Path]) -> str:
    """One line about images that are not read, empty where there are none.

    Args:
        place: folder or list that holds the files, for the line.
        files: also such as are read; hidden ones below a folder do not count.
    """
    endings = Counter(file.suffix.lower() for file in files if not _is_hidden(file, place))
    found = {ending: endings[ending] for ending in _ENDINGS if endings[ending]}
    if not found:
        return ''
    listed = ', '.join(f'{count} {ending}' for ending, count in found.items())
    return f'{place}: images are not read ({listed}), expected {FORMATS}: convert them first'


def _is_hidden(file: Path, place: Path) -> bool:
    inside = file.relative_to(place) if file.is_relative_to(place) else file
    return any(part.startswith('.') for part in inside.parts if part != '..')
