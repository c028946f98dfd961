"""The weights in models/ on unseen images: no path of theirs is broken."""
import random
from pathlib import Path

import pytest

from deadline_perception.datasets.coco import read_coco
from deadline_perception.detector.checkpoint import load_detector
from deadline_perception.evaluation.path_accuracy import annotated_frames, measure_paths
from deadline_perception.latency.measurement_plan import random_path

REPOSITORY = Path(__file__).resolve().parents[2]
VALIDATION = REPOSITORY.parent / 'shared' / 'data' / 'carla' / 'val.json'
IMAGES, PATHS = 20, 12
LEAST_AP50 = 0.3  # of vehicles, the class with most objects; on all validation images no path was under 0.5


@pytest.mark.skipif(not VALIDATION.is_file(), reason='needs the validation images')
def test_no_path_is_broken():
    detector = load_detector(REPOSITORY / 'models' / 'compact.safetensors')
    space, rng = detector.path_space, random.Random(0)
    paths = [space.largest, space.smallest, *(random_path(space, rng) for _ in range(PATHS - 2))]
    sequence = read_coco(VALIDATION)
    results = measure_paths(detector, sequence, annotated_frames(sequence, IMAGES), paths)
    ap50 = {str(path): result.per_class['vehicle'].ap50 for path, (result, *_) in results.items()}
    assert len(ap50) == PATHS and min(ap50.values()) > LEAST_AP50, ap50
