"""Paths are measured on annotated images, and the sample of paths covers every operator."""

import json
from functools import partial

import numpy as np
import pytest
from made_up_labels import known
from plain_images import grey

from deadline_perception.core.detections import Detections
from deadline_perception.engines.eager import Eager
from deadline_perception.engines.segment_run import SegmentRun
from deadline_perception.extras.data.records import Frame, GroundTruth, Sequence
from deadline_perception.extras.evaluation.path_accuracy import (
    annotated_frames,
    detect_on_paths,
    measure_paths,
    ranking_classes,
    sample_paths,
)
from deadline_perception.extras.faster_rcnn.declaration import multi_path_space

WIDTHS = {'widths': (1.0, 0.5), 'pyramid_widths': (1.0, 0.5)}
SPACE = multi_path_space(skips_per_stage=(1, 1), proposals=(10, 100), heads=3, **WIDTHS)
BOX = [10, 10, 60, 60]


class Run(SegmentRun):
    """A run of the made-up detector, which notes in `passed` every segment that any run computes."""

    def __init__(self, image_bgr, path, passed):
        super().__init__(SPACE, path)
        self.passed, self._image = passed, image_bgr

    def compute(self, name, key):
        self.passed.append(name)

    def result(self):
        if self.path == SPACE.smallest:
            return Detections.none()
        return Detections([[value + self._image[0, 0, 0] for value in BOX]], [0.9], [1])


class Detector:
    """Finds the object of an image whose grey level says where it is; the smallest path finds nothing."""

    class_names = ('bike', 'vehicle')
    engine = Eager()
    path_space = SPACE

    def __init__(self):
        self.passed = []

    def start(self, image_bgr, path):
        return Run(image_bgr, path, self.passed)


def annotated(count: int, names=('vehicle', 'bike')) -> Sequence:
    frames = []
    for index in range(count):
        objects = known([*(value + index for value in BOX), 0, 0]) if index else None
        frames.append(Frame(str(index), index, partial(grey, 100, 100, index), None, objects))
    return Sequence('made up', names, tuple(frames))


def test_measures_every_path_and_reports_progress():
    sequence, done = annotated(4), []
    frames = annotated_frames(sequence)
    paths = [SPACE.largest, SPACE.smallest]
    options = {'draws': 5, 'ranked_by': ('vehicle',)}
    results = measure_paths(Detector(), sequence, frames, paths, done.append, **options)
    for path, ap in zip(paths, (pytest.approx(1.0), 0.0)):
        assert [results[path].precision.ap, results[path].pooled] == [ap, ap]
        assert results[path].resampled.tolist() == [ap] * 5
    assert results[SPACE.largest].precision.images == 3
    assert done == [1, 2, 3, 4, 5, 6]


def test_paths_share_what_they_have_in_common():
    detector = Detector()
    largest = SPACE.largest
    changes = {}, {'head': '0'}, {'proposals': 10}, {'head': '1'}
    paths = [largest.replace(**change) for change in changes]
    found = dict(detect_on_paths(detector, grey(4, 4), paths))
    assert set(found) == set(paths)
    expected = {'pre': 1, 'stage1': 1, 'pyramid': 1, 'rpn': 1, 'proposals': 2, 'head': 4}
    assert {name: detector.passed.count(name) for name in expected} == expected
    assert list(detect_on_paths(detector, grey(4, 4), [])) == []


def test_paths_are_ranked_by_the_classes_with_enough_objects():
    names = ('vehicle', 'bike', 'traffic_light')
    ground_truths = [GroundTruth([BOX] * 4, [0, 0, 1, 2], [False, False, False, True])] * 49
    assert ranking_classes(ground_truths, names) == {'vehicle': 98}
    expected = {'vehicle': 98, 'bike': 50}
    assert ranking_classes([*ground_truths, GroundTruth([BOX], [1], [False])], names) == expected
    assert ranking_classes(ground_truths, names, '100') == {}
    assert ranking_classes(ground_truths, names, '1') == {'vehicle': 98, 'bike': 49}
    assert ranking_classes(ground_truths, names, 'bike, vehicle') == {'bike': 49, 'vehicle': 98}
    for rank_by, words in (
        ('tram', "'tram'"),
        ('traffic_light', r"'traffic_light', expected .* traffic_light \(0\)"),
        ('0', 'of 0 objects'),
        ('', "''"),
    ):
        with pytest.raises(ValueError, match=words):
            ranking_classes(ground_truths, names, rank_by)
    with pytest.raises(ValueError, match='none of 2 images holds an object of vehicle, bike, .*'):
        ranking_classes([GroundTruth([], [], []), GroundTruth([BOX], [0], [True])], names)


def test_the_shipped_table_is_ranked_by_what_the_rule_chooses(repository):
    table = json.loads((repository / 'models/street.quality.json').read_text())
    assert table['metric'] == 'pooled_ap'
    for row in table['paths'].values():
        counts = {name: scores['ground_truths'] for name, scores in row['per_class'].items()}
        ground_truths = [
            GroundTruth([BOX] * count, [label] * count, [False] * count)
            for label, count in enumerate(counts.values())
        ]
        ranking = ranking_classes(ground_truths, tuple(counts))
        assert ranking == table['ranked_by'] and {'vehicle', 'person'} <= set(ranking)
        mean = np.mean([row['per_class'][name]['ap'] for name in ranking])
        assert row['pooled_ap'] == pytest.approx(mean, abs=1e-12)


def test_images_and_paths_are_sampled_evenly_with_every_setting():
    assert [frame.name for frame in annotated_frames(annotated(11), 2)] == ['3', '8']
    assert len(annotated_frames(annotated(11), 100)) == 10
    with pytest.raises(ValueError, match='expected at least 1 image'):
        annotated_frames(annotated(3), 0)
    with pytest.raises(ValueError, match='has no ground truth'):
        annotated_frames(annotated(1))
    paths = sample_paths(SPACE, 20)
    assert len(paths) == len(set(paths)) == 20 and all(path in SPACE for path in paths)
    assert {SPACE.largest, SPACE.smallest} <= set(paths)
    for operator in SPACE.operators:
        assert {path[operator.name] for path in paths} == set(operator.settings)
    assert paths == sample_paths(SPACE, 20)
    assert len(sample_paths(SPACE, 10_000)) == len(SPACE)
    with pytest.raises(ValueError, match='expected at least 2 paths'):
        sample_paths(SPACE, 1)
