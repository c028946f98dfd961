"""Real images and what is known of them: whole sources, and chosen ones of nine sorts that two looks are compared on, and
that their joining is fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.extras.data.class_names import relabelled, with_mapping
from deadline_perception.extras.data.records import Frame, GroundTruth, spread_evenly
from deadline_perception.extras.data.source import open_source
from deadline_perception.extras.evaluation.path_accuracy import annotated_frames

CLASSES = ('vehicle', 'person', 'bike', 'traffic_light', 'traffic_sign')
MERGED = {
    **dict.fromkeys(('car', 'bus', 'truck'), 'vehicle'),
    'rider': 'person',
    **dict.fromkeys(('motor', 'bicycle', 'motorcycle', 'motorbike'), 'bike'),
}
DHAKA_VEHICLES = (
    'pickup, suv, van, minivan, minibus, taxi, ambulance, policecar, army vehicle, garbagevan, auto rickshaw, '
    'human hauler, three wheelers -CNG-, rickshaw'
).split(', ')
NAMES = {
    **MERGED,
    **dict.fromkeys(('Car', 'Bus', 'Truck', 'Ambulance', *DHAKA_VEHICLES), 'vehicle'),
    **dict.fromkeys(('Motorcycle', 'scooter'), 'bike'),
    **dict.fromkeys(('traffic light', 'trafficlight'), 'traffic_light'),
    **dict.fromkeys(('stop sign', 'speedlimit', 'crosswalk', 'stop'), 'traffic_sign'),
}
# Whole sources, each with the classes that it marks.
SOURCES = {
    'bdd100k': ('bdd100k/val.json', ('vehicle', 'person', 'bike')),
    'dhaka': ('road_vehicle_dhaka/val.json', ('vehicle', 'bike')),
    'carla': ('carla/val.json', ('vehicle', 'bike', 'traffic_light', 'traffic_sign')),
    'signs': ('road_signs/val.json', ('traffic_light', 'traffic_sign')),
    'coco': ('coco_small/val.json', ('vehicle', 'person', 'bike')),
}
PHANTOM_SCORE = 0.3  # of a box that counts where there is no object
NEGATIVES = 'negatives'
# File below the data, which of its images, and how many of them spread over these. Which: the length of a
# round, and the places in it, as (5, (2,)) is every fifth from the third one on.
Choice = tuple[str, tuple[int, tuple[int, ...]], int]
EVEN, ODD, ALL = (2, (0,)), (2, (1,)), (1, (0,))
APART, LEARNT = (
    (5, (2,)),
    (5, (0, 1, 3, 4)),
)  # of photographs and negatives, in the training of `street`


@dataclass(frozen=True)
class Kind:
    """Images of one sort.

    Attributes:
        measured: see `Choice`; none that `street` was trained on, but for some photographs by early runs.
        fitted: the same of the images that calibration and rule are fitted on; None where there are none.
        classes: that are marked; none where nothing that is found is right.
    """

    measured: Choice
    fitted: Choice | None = None
    classes: tuple[str, ...] = ()


KINDS = {
    'bdd100k': Kind(
        ('bdd100k/val.json', ODD, 250),
        ('bdd100k/val.json', EVEN, 250),
        ('vehicle', 'person', 'bike'),
    ),
    'photographs': Kind(
        ('vehicles_openimages/train.json', APART, 60),
        ('vehicles_openimages/train.json', LEARNT, 60),
        ('vehicle', 'bike'),
    ),
    'coco': Kind(
        ('coco_small/val.json', ALL, 60),
        ('coco_small/train.json', ALL, 100),
        ('vehicle', 'person', 'bike'),
    ),
    'penn_fudan': Kind(('penn_fudan/val.json', ALL, 60), None, ('person',)),
    'kitti': Kind(('kitti_0095/sequence.json', ALL, 60), None, ('vehicle', 'person', 'bike')),
    'dhaka': Kind(
        ('road_vehicle_dhaka/val.json', ALL, 60),
        ('road_vehicle_dhaka/train_more.json', ALL, 60),
        ('vehicle', 'bike'),
    ),
    'signs': Kind(
        ('road_signs/val.json', ALL, 60),
        ('road_signs/train.json', ALL, 60),
        ('traffic_light', 'traffic_sign'),
    ),
    'carla': Kind(
        ('carla/val.json', ODD, 60), ('carla/val.json', EVEN, 60), ('vehicle', 'traffic_light')
    ),
    'rendered': Kind(
        ('drive:seed=12,seconds=32', ALL, 40),
        ('drive:seed=3,seconds=32', ALL, 60),
        ('vehicle', 'bike', 'traffic_light', 'traffic_sign'),
    ),
    NEGATIVES: Kind(
        ('coco_small/train.json', APART, 40),
        ('coco_small/train.json', LEARNT, 160),
    ),
}


@dataclass(frozen=True, eq=False)
class Images:
    """Images of one kind, and what is known of them.

    Attributes:
        kind: name.
        frames: the images.
        known: objects of each, their labels index `CLASSES`.
    """

    kind: str
    frames: Sequence[Frame]
    known: Sequence[GroundTruth]

    @classmethod
    def whole(cls, data: Path, kind: str, source: tuple[str, tuple[str, ...]], limit: int | None):
        """All annotated ones of a file, at most so many spread evenly, with the objects of the classes that it marks."""
        file, marked = source
        sequence = with_mapping(open_source(str(data / file)), NAMES)
        frames = annotated_frames(sequence, limit)
        wanted = [name if name in marked else None for name in sequence.class_names]
        known = [relabelled(frame.ground_truth, wanted, CLASSES) for frame in frames]
        return cls(kind, frames, known)

    @classmethod
    def open(cls, data: Path, kind: str, chosen: Choice, limit: int | None):
        """Those of a file that show something of `CLASSES`, or of negatives nothing."""
        file, (step, places), count = chosen
        sequence = open_source(file if file.startswith('drive:') else str(data / file))
        sequence = with_mapping(sequence, NAMES)
        pairs = [
            (frame, relabelled(frame.ground_truth, sequence.class_names, CLASSES))
            for frame in sequence.frames
        ]
        if kind == NEGATIVES:
            pairs = [pair for pair in pairs if not len(pair[1].labels)]
        pairs = [pair for place, pair in enumerate(pairs) if place % step in places]
        if kind != NEGATIVES:
            pairs = [pair for pair in pairs if len(pair[1].labels)]
        pairs = spread_evenly(pairs, min(count, limit or count))
        return cls(kind, *map(list, zip(*pairs)))


@cache
def frame_size(frame: Frame) -> tuple[int, int]:
    height, width = frame.load_bgr().shape[:2]
    return height, width


def of_classes(
    found: Detections, class_names: Sequence[str], marked: Sequence[str] = CLASSES
) -> Detections:
    """The detections of marked classes, with labels that index `CLASSES`; `class_names` are the network's."""
    places = {name: place for place, name in enumerate(CLASSES) if name in marked}
    numbers = [places.get(NAMES.get(name, name), -1) for name in class_names]
    labels = np.array(numbers, int)[found.labels]
    kept = labels >= 0
    return Detections(found.boxes_xyxy_px[kept], found.scores[kept], labels[kept])
