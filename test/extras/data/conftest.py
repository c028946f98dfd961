"""Small data sets in their exact folder and file formats."""

from __future__ import annotations

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
        write_image(tmp_path / 'images' / f'Town01_{number:06d}.png', shade=50 * number)
    names = ('vehicle', 'bike', 'motorbike', 'traffic_light', 'traffic_sign')
    write_json(
        tmp_path / 'val.json',
        {
            'images': [
                {'id': 8, 'file_name': 'images/Town01_000002.png', 'width': 64, 'height': 40},
                {'id': 3, 'file_name': 'images/Town01_000001.png', 'width': 64, 'height': 40},
            ],
            'annotations': [
                {
                    'id': 1,
                    'image_id': 8,
                    'category_id': 1,
                    'bbox': [4, 5, 20, 10],
                    'area': 200,
                    'iscrowd': 0,
                },
                {
                    'id': 2,
                    'image_id': 8,
                    'category_id': 4,
                    'bbox': [40, 2, 3, 6],
                    'area': 18,
                    'iscrowd': 1,
                },
                {
                    'id': 3,
                    'image_id': 3,
                    'category_id': 5,
                    'bbox': [10, 10, 12, 12],
                    'area': 144,
                    'iscrowd': 0,
                },
            ],
            'categories': [{'id': index + 1, 'name': name} for index, name in enumerate(names)],
        },
    )
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
        write_json(
            tmp_path / 'vehicle/val/ulm' / f'{stem}_vehicle.json',
            {
                'gpsHeading': 281,
                'gpsLatitude': 48.4,
                'gpsLongitude': 9.98,
                'outsideTemperature': 17.5,
                'speed': speed,
                'yawRate': 0.01,
            },
        )
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


@pytest.fixture
def bdd100k_root(tmp_path: Path) -> Path:
    """Three images; the old label form, and one info file whose last GPS fix is invalid."""
    for name in ('b1c66a42-6f7d68ca', 'b1c81faa-3df17267', 'b1d0091f-75824d0d'):
        write_image(tmp_path / 'images/100k/val' / f'{name}.jpg', 128, 72)
    weather = {'weather': 'overcast', 'scene': 'city street', 'timeofday': 'daytime'}
    write_json(
        tmp_path / 'labels/bdd100k_labels_images_val.json',
        [
            {
                'name': 'b1c66a42-6f7d68ca.jpg',
                'attributes': weather,
                'timestamp': 10000,
                'labels': [
                    bdd100k_label('traffic sign', (50.5, 10.25, 60.0, 20.0), 0),
                    bdd100k_label('car', (-3.0, 30.0, 20.0, 50.0), 1),
                    bdd100k_label('motor', (70.0, 30.0, 80.0, 44.0), 2),
                    bdd100k_label('person', (1.0, 1.0, 5.0, 9.0), 3),
                    {
                        'category': 'lane',
                        'id': 4,
                        'attributes': {'direction': 'parallel'},
                        'poly2d': [
                            {'vertices': [[0, 60], [60, 40]], 'types': 'LL', 'closed': False}
                        ],
                    },
                ],
            },
            {
                'name': 'b1c81faa-3df17267.jpg',
                'attributes': weather,
                'timestamp': 10000,
                'labels': [],
            },
        ],
    )
    start = 1_506_800_843_701
    write_json(
        tmp_path / 'info/100k/val/b1c66a42-6f7d68ca.json',
        {
            'rideID': 'b1c66a426f7d68ca',
            'startTime': start,
            'endTime': start + 40_000,
            'gyro': [],
            'accelerometer': [],
            'filename': '2017-09-30.mov',
            'locations': [
                {
                    'timestamp': start + second * 1000,
                    'speed': speed,
                    'course': 12.0,
                    'accuracy': 10.0,
                    'latitude': 40.7,
                    'longitude': -73.9,
                }
                for second, speed in ((0, 3.0), (9, 6.0), (11, 8.0), (12, -1))
            ],
        },
    )
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
    write_json(
        tmp_path / f'labels/box_track_20/val/{names[0]}.json',
        [
            {
                'name': f'{names[0]}-{index + 1:07d}.jpg',
                'videoName': names[0],
                'frameIndex': index,
                **({'labels': people} if index != 1 else {}),
            }
            for index in range(3)
        ],
    )
    start = 1_506_800_843_701
    write_json(
        tmp_path / f'info/100k/val/{names[0]}.json',
        {
            'rideID': names[0],
            'startTime': start,
            'endTime': start + 40_000,
            'locations': [
                {'timestamp': start + second * 1000, 'speed': 5.0 + second} for second in range(3)
            ],
        },
    )
    return tmp_path
