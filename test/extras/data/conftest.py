"""Small data sets in their exact folder and file formats."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest


def write_image(file: Path, width: int = 64, height: int = 40, shade: int = 90) -> np.ndarray:
    """A gradient, so that frames differ and flips show."""
    image = np.full((height, width, 3), shade, np.uint8)
    image[..., 0] = np.linspace(0, 255, width).astype(np.uint8)
    image[..., 1] = np.linspace(0, 200, height).astype(np.uint8)[:, None]
    file.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(file), image)
    return image


def write_json(file: Path, content: object) -> Path:
    """JSON with its folders."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content), encoding='utf-8')
    return file


@pytest.fixture
def coco_folder(tmp_path: Path) -> Path:
    """Two images, three boxes, categories as in the driving data."""
    for number in (1, 2):
        write_image(tmp_path / f'images/Town01_{number:06d}.png', shade=50 * number)
    boxes = ((8, 1, [4, 5, 20, 10], 0), (8, 4, [40, 2, 3, 6], 1), (3, 5, [10, 10, 12, 12], 0))
    marked = [
        dict(zip(('id', 'image_id', 'category_id', 'bbox', 'iscrowd'), (number, *box)))
        for number, box in enumerate(boxes, 1)
    ]
    names = ('vehicle', 'bike', 'motorbike', 'traffic_light', 'traffic_sign')
    content = {
        'images': [
            {'id': 8, 'file_name': 'images/Town01_000002.png', 'width': 64, 'height': 40},
            {'id': 3, 'file_name': 'images/Town01_000001.png', 'width': 64, 'height': 40},
        ],
        'annotations': [{**row, 'area': row['bbox'][2] * row['bbox'][3]} for row in marked],
        'categories': [{'id': index + 1, 'name': name} for index, name in enumerate(names)],
    }
    write_json(tmp_path / 'val.json', content)
    return tmp_path


@pytest.fixture
def cityscapes_root(tmp_path: Path) -> Path:
    """One city with two snippets: consecutive frames, then a frame far behind; polygons of one and speeds of all."""
    stems = ('ulm_000000_000018', 'ulm_000000_000019', 'ulm_000001_000019')
    for stem in stems:
        write_image(tmp_path / 'leftImg8bit/val/ulm' / f'{stem}_leftImg8bit.png', 128, 64)
    write_json(
        tmp_path / 'gtFine/val/ulm/ulm_000000_000019_gtFine_polygons.json',
        {
            'imgHeight': 64,
            'imgWidth': 128,
            'objects': [
                {'label': 'road', 'polygon': [[0, 40], [127, 40], [127, 63]]},
                {'label': 'car', 'polygon': [[10, 20], [40, 22], [38, 44], [12, 43]]},
                {'label': 'cargroup', 'polygon': [[60, 20], [80, 20], [80, 30]]},
                {'label': 'bicycle', 'polygon': [[90, 30], [99, 30], [95, 45]]},
                {'label': 'person', 'polygon': [[50, 30], [54, 30], [52, 45]]},
                {'label': 'persongroup', 'polygon': [[70, 30], [90, 30], [80, 45]]},
                {'label': 'rider', 'polygon': [[91, 22], [97, 22], [95, 40]]},
                {'label': 'trailer', 'polygon': [[110, 22], [120, 22], [120, 40]]},
                {'label': 'bus', 'deleted': 1, 'polygon': [[0, 0], [9, 9], [0, 9]]},
                {'label': 'traffic light', 'polygon': [[100, 2], [104, 2], [104, 12], [100, 12]]},
            ],
        },
    )
    for stem, speed in zip(stems, (5.5, 6.0, -0.25)):
        facts = {'gpsHeading': 281, 'outsideTemperature': 17.5, 'speed': speed, 'yawRate': 0.01}
        write_json(tmp_path / 'vehicle/val/ulm' / f'{stem}_vehicle.json', facts)
    return tmp_path


def bdd100k_label(category: str, box: tuple[float, float, float, float], identity: object) -> dict:
    return {
        'category': category,
        'id': identity,
        'manualShape': True,
        'manualAttributes': True,
        'attributes': {'occluded': False, 'truncated': False, 'trafficLightColor': 'none'},
        'box2d': dict(zip(('x1', 'y1', 'x2', 'y2'), box)),
    }


def write_info(root: Path, speeds: tuple[tuple[int, float], ...]) -> None:
    """What the phone knew of the first video: speeds by seconds from its start."""
    start = 1_506_800_843_701
    fix = {'course': 12.0, 'accuracy': 10.0, 'latitude': 40.7, 'longitude': -73.9}
    rows = [{'timestamp': start + second * 1000, 'speed': speed, **fix} for second, speed in speeds]
    facts = {'rideID': 'b1c66a426f7d68ca', 'startTime': start, 'endTime': start + 40_000}
    name = 'b1c66a42-6f7d68ca'
    write_json(root / f'info/100k/val/{name}.json', {**facts, 'gyro': [], 'locations': rows})


@pytest.fixture
def bdd100k_root(tmp_path: Path) -> Path:
    """Three images; the old label form, and one info file whose last GPS fix is invalid."""
    for name in ('b1c66a42-6f7d68ca', 'b1c81faa-3df17267', 'b1d0091f-75824d0d'):
        write_image(tmp_path / 'images/100k/val' / f'{name}.jpg', 128, 72)
    weather = {'weather': 'overcast', 'scene': 'city street', 'timeofday': 'daytime'}
    lane = {'vertices': [[0, 60], [60, 40]], 'types': 'LL', 'closed': False}
    labels = [
        bdd100k_label('traffic sign', (50.5, 10.25, 60.0, 20.0), 0),
        bdd100k_label('car', (-3.0, 30.0, 20.0, 50.0), 1),
        bdd100k_label('motor', (70.0, 30.0, 80.0, 44.0), 2),
        bdd100k_label('person', (1.0, 1.0, 5.0, 9.0), 3),
        {'category': 'lane', 'id': 4, 'attributes': {'direction': 'parallel'}, 'poly2d': [lane]},
    ]
    images = [
        {'name': f'{name}.jpg', 'attributes': weather, 'timestamp': 10000, 'labels': rows}
        for name, rows in (('b1c66a42-6f7d68ca', labels), ('b1c81faa-3df17267', []))
    ]
    write_json(tmp_path / 'labels/bdd100k_labels_images_val.json', images)
    write_info(tmp_path, ((0, 3.0), (9, 6.0), (11, 8.0), (12, -1)))
    return tmp_path


@pytest.fixture
def bdd100k_tracks(tmp_path: Path) -> Path:
    """Two tracked videos at 5 Hz, the second without labels; speeds of the first."""
    names = ('b1c66a42-6f7d68ca', 'b1c81faa-3df17267')
    for name, count in zip(names, (3, 2)):
        for number in range(1, count + 1):
            write_image(tmp_path / f'images/track/val/{name}/{name}-{number:07d}.jpg', 128, 72)
    people = [
        bdd100k_label('pedestrian', (1.0, 1.0, 9.0, 30.0), '00000113'),
        bdd100k_label('other vehicle', (40.0, 30.0, 60.0, 50.0), '00000114'),
        bdd100k_label('rider', (70.0, 20.0, 80.0, 44.0), '00000115'),
    ]
    people[2]['attributes'] = {'occluded': False, 'truncated': False, 'crowd': True}
    frames = [
        {'name': f'{names[0]}-{n + 1:07d}.jpg', 'videoName': names[0], 'frameIndex': n}
        for n in range(3)
    ]
    frames[0]['labels'] = frames[2]['labels'] = people
    write_json(tmp_path / f'labels/box_track_20/val/{names[0]}.json', frames)
    write_info(tmp_path, ((0, 5.0), (1, 6.0), (2, 7.0)))
    return tmp_path
