"""Images with annotations in COCO format, as commands read them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import cv2
import numpy as np


def turn(file: Path) -> None:
    """Notes in a JPEG file that its camera was held on its side (orientation 6 of Exif)."""
    note = b'Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0'
    content, length = file.read_bytes(), (len(note) + 2).to_bytes(2, 'big')
    file.write_bytes(content[:2] + b'\xff\xe1' + length + note + content[2:])


def write_coco(
    file: Path,
    images: Mapping[str, np.ndarray],
    boxes: Sequence[tuple[int, int, Sequence[int]]],
    names: Sequence[str],
) -> Path:
    """Writes images uint8 `[H, W, 3]` by their names from the folder of the JSON file, and their annotations: number of
    the image, index of the class, and x, y, width and height in px. Returns the file."""
    rows = []
    for number, (name, image) in enumerate(images.items()):
        (file.parent / name).parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(file.parent / name), image)
        height, width = image.shape[:2]
        rows.append({'id': number, 'file_name': name, 'width': width, 'height': height})
    annotations = [
        {'id': number, 'image_id': image, 'category_id': label + 1, 'iscrowd': 0}
        | {'bbox': list(box), 'area': box[2] * box[3]}
        for number, (image, label, box) in enumerate(boxes)
    ]
    categories = [{'id': number, 'name': name} for number, name in enumerate(names, 1)]
    content = {'images': rows, 'annotations': annotations, 'categories': categories}
    file.write_text(json.dumps(content))
    return file


def write_class_folders(folder: Path, side_px: int) -> Path:
    """Twelve images each of the classes bright and dark, a folder for each class; returns the folder above them."""
    rng = np.random.default_rng(0)
    for name, level in (('bright', 200), ('dark', 50)):
        (folder / name).mkdir(parents=True)
        for number in range(12):
            image = np.clip(rng.normal(level, 15, (side_px, side_px, 3)), 0, 255).astype(np.uint8)
            cv2.imwrite(str(folder / name / f'{number:02d}.png'), image)
    return folder
