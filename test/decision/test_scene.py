import json

import numpy as np
import pytest

from deadline_perception.core.detections import Detections
from deadline_perception.core.execution_path import Operator, PathSpace, Segment
from deadline_perception.decision.path_quality import PathQuality, QualityTableError
from deadline_perception.decision.scene import SIZE_EDGES, SIZE_NAMES, Scene, SizeQuality, _shrunk

SPACE = PathSpace(
    (Operator('scale', 'scale', (0.5, 1.0), 'r'), Operator('width', 'width', (0.5, 1.0), 'w')),
    (Segment('all', 'conv', 'scale', ('scale',)), Segment('rest', 'conv', 'width', ('width',))),
)
SMALL, LARGE = SPACE.parse('r0.50-w1.00'), SPACE.parse('r1.00-w1.00')
OVERALL = PathQuality({path: 0.3 + 0.1 * path['scale'] * path['width'] for path in SPACE})
BY_SIZE = {
    SMALL: np.array([[0.05, 0.2, 0.4, 0.6, 0.8], [np.nan] * 5]),
    LARGE: np.array([[0.25, 0.4, 0.5, 0.5, 0.3], [np.nan] * 5]),
}
OBJECTS = np.array([[1000] * 5, [0] * 5])


def table():
    return SizeQuality(BY_SIZE, OBJECTS, OVERALL)


def test_a_small_scale_is_better_for_near_objects_and_a_large_one_for_far_ones():
    small, large = table().table([SMALL, LARGE]).reshape(2, 2, 5)
    assert (small[0, :3] < large[0, :3]).all() and (small[0, 3:] > large[0, 3:]).all()
    assert small[0] == pytest.approx(BY_SIZE[SMALL][0], abs=0.1)
    assert small[1] == pytest.approx(
        small[0], abs=0.05
    )  # of which nothing was seen: as all classes
    assert ((small >= 0) & (small <= 1)).all()


def test_tables_with_and_without_sizes_are_read_and_others_refused(tmp_path):
    file = tmp_path / 'x.quality.json'
    by_size = {str(path): np.where(np.isnan(one), None, one) for path, one in BY_SIZE.items()}
    rows = {path: {'ap': 0.3, 'by_size': one.tolist()} for path, one in by_size.items()}
    sizes = {'edges': SIZE_EDGES, 'classes': ['a', 'b'], 'objects': OBJECTS.tolist()}
    content = {'version': 2, 'weights_hash': 'x', 'sizes': sizes, 'paths': rows}
    file.write_text(json.dumps(content))
    PathQuality.load(file, SPACE)
    read = SizeQuality.load(file, SPACE, ('a', 'b'), OVERALL)
    assert read.table([SMALL, LARGE]) == pytest.approx(table().table([SMALL, LARGE]))
    with pytest.raises(QualityTableError, match='expected .* and \\[.b.\\]'):
        SizeQuality.load(file, SPACE, ('b',), OVERALL)
    del content['sizes']
    file.write_text(json.dumps(content))
    assert SizeQuality.load(file, SPACE, ('a', 'b'), OVERALL) is None
    file.write_text(json.dumps(content | {'version': 3}))
    with pytest.raises(QualityTableError, match='version is 3'):
        PathQuality.load(file, SPACE)


@pytest.mark.parametrize('wrong', [{}, {SMALL: np.full((2, 5), 1.5)}, {SMALL: np.zeros((1, 5))}])
def test_what_is_no_quality_is_refused(wrong):
    with pytest.raises(ValueError, match='expected'):
        SizeQuality(wrong, OBJECTS, OVERALL)


def test_few_objects_are_drawn_to_all_classes_and_those_to_the_quality_over_all():
    table = np.array([[0.2, np.nan], [0.6, np.nan]])
    found = _shrunk(table, np.array([[20.0, 5.0], [60.0, 5.0]]), 0.3)
    pooled = (20 * 0.2 + 60 * 0.6 + 20 * 0.3) / 100
    assert found[:, 0] == pytest.approx([(4 + 20 * pooled) / 40, (36 + 20 * pooled) / 80])
    assert found[:, 1] == pytest.approx([0.3, 0.3])


def test_the_scene_weighs_classes_and_sizes_and_forgets_what_is_gone():
    scene, bins, heard = Scene(('vehicle', 'person'), {'person': 3.0}), len(SIZE_NAMES), []
    scene.followers.append(heard.append)
    assert scene.weights.sum() == pytest.approx(1.0)
    assert scene.weights[bins:].sum() == pytest.approx(0.75)
    near = Detections([[0, 0, 180, 90]], [0.9], [0])
    for _ in range(20):
        scene.update(near, (100, 200))
    assert scene.weights[:bins].argmax() == bins - 1
    assert len(heard) == 20 and heard[-1] is scene.weights
    before = scene.weights[bins - 1]
    for _ in range(20):
        scene.update(Detections.none(), (100, 200))
    assert scene.weights[bins - 1] < before
    for wrong in ({'cat': 1.0}, {'vehicle': 0.0}, {'vehicle': np.inf}):
        with pytest.raises(ValueError, match='expected numbers above 0'):
            Scene(('vehicle',), wrong)


def test_a_box_counts_to_the_size_of_its_share_and_to_the_largest_beyond_the_image():
    boxes = [[0, 0, width, width / 2] for width in (4, 12, 20, 40, 100)]
    for size, box in enumerate([*boxes, [-50, -50, 400, 300]]):
        scene = Scene(('vehicle',))
        scene.update(Detections([box], [1.0], [0]), (100, 200))
        assert scene.weights.argmax() == min(size, 4)
