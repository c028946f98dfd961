"""What the benchmarks of accuracy make of their measurements, with scores made up by hand."""
from __future__ import annotations

import json

import cv2
import numpy as np
import pytest

from deadline_perception.core.detections import Detections
from deadline_perception.datasets.rendering.drive import CLASS_NAMES
from deadline_perception.datasets.source import open_source
from deadline_perception.networks.multi_path.declaration import multi_path_space

SPACE = multi_path_space(skips_per_stage=(0,), widths=(1.0, 0.75, 0.5, 0.25), pyramid_widths=(1.0,),
                         proposals=(10, 50, 100), heads=1)
PATHS = [SPACE.smallest.replace(width=width) for width in (0.25, 0.5, 0.75, 1.0)]
TIMES_MS = dict(zip(PATHS, (10.0, 20.0, 30.0, 40.0)))


def same_on_every_draw(halves: dict) -> dict:
    """Ranking AP of two halves as `held_out` takes it: no chance, one way to halve."""
    return {path: np.repeat(np.array(values), 4).reshape(1, 2, 4) for path, values in halves.items()}


def test_a_point_is_useful_only_where_it_was_not_chosen(load_benchmark):
    halves = dict(zip(PATHS, ((20.0, 20.0), (25.0, 19.0), (24.0, 26.0), (30.0, 30.0))))
    rows = load_benchmark('held_out_choice').held_out(TIMES_MS, same_on_every_draw(halves), PATHS, PATHS[3])
    first, second = (row for row in rows if row['by'] == 'measured')
    assert (first['points'], first['useful_where_chosen']) == (3, 3)
    assert first['useful'] == [str(PATHS[0]), str(PATHS[3])], 'the second path gained by chance, on its own half'
    assert (second['points'], second['useful_where_chosen']) == (3, 3)
    assert second['useful'] == [str(PATHS[0]), str(PATHS[2]), str(PATHS[3])]
    # The best of the other paths was chosen for its 25 and gives 19, against 30; then for its 26, and gives 24.
    assert (first['best_other_over_full'], second['best_other_over_full']) == (-11.0, -6.0)


def test_expected_values_resist_a_lucky_half(load_benchmark):
    """Twelve paths as good as their widths say, one of them lucky on the half that chooses."""
    choice, rng = load_benchmark('held_out_choice'), np.random.default_rng(0)
    paths = list(SPACE)
    times_ms = {path: 100 * path['width'] + 0.1 * path['proposals'] for path in paths}
    halves = {}
    for path in paths:
        values = 20 + 20 * path['width'] + 0.02 * path['proposals'] + rng.normal(0, 2.0, (1, 2, 41))
        values[..., 0] = 20 + 20 * path['width'] + 0.02 * path['proposals'] + 6.0 * (path == paths[3])
        values[:, 1, 0] -= 6.0 * (path == paths[3])
        halves[path] = values
    rows = choice.held_out(times_ms, halves, paths, paths[-1])[:2]
    assert rows[0]['by'] == 'measured' and rows[1]['optimism'] < rows[0]['optimism']
    found = choice.summary(choice.held_out(times_ms, halves, paths, paths[-1]))
    assert found['gain_points'] > 0 and found['gain_points_of_splits'] == [found['gain_points']]
    assert found['expected']['realised'] - found['measured']['realised'] == pytest.approx(found['gain_points'])


def test_halves_are_runs_of_neighbours_and_share_no_image(load_benchmark):
    choice = load_benchmark('held_out_choice')
    counts = choice.half_draws(142)
    assert counts.shape == (choice.SPLITS, 2, 1 + choice.HALF_DRAWS, 142)
    assert (counts[:, 0, 0] + counts[:, 1, 0] == 1).all(), 'every image is in one half'
    assert (counts[:, :, 0].sum(-1) >= 62).all()
    assert counts[0, 0, 0, :24].tolist() == [1] * 8 + [0] * 8 + [1] * 8, 'runs in turn'
    assert ((counts > 0) <= (counts[:, :, :1] > 0)).all(), 'a half is drawn from its own images'
    assert (counts.sum(-1) == counts[:, :, :1].sum(-1)).all()
    assert len({counts[split, 0, 0].tobytes() for split in range(choice.SPLITS)}) == choice.SPLITS
    assert (choice.half_draws(2)[:, :, 0].sum(-1) == 1).all()


@pytest.mark.parametrize(('gain', 'low', 'of_seeds', 'pays'), [
    (1.0, 0.1, [], True), (1.0, -0.1, [], False),
    (2.0, -0.1, [1.5, 2.0, 2.5], True), (2.0, 1.0, [0.5, 2.0, 3.5], False),
    (0.9, 0.1, [1.5, 2.0, 2.5], False)])
def test_an_operator_pays_beyond_the_range_of_the_seeds(load_benchmark, gain, low, of_seeds, pays):
    assert load_benchmark('path_accuracy').verdict(gain, low, of_seeds)['pays'] is pays


def test_a_judge_of_all_sources_does_not_count_a_class_where_it_is_not_named(load_benchmark, tmp_path):
    file, drive = tmp_path / 'val.json', 'drive:seed=900,seconds=8,rate_hz=0.5'
    for number in (1, 2):
        cv2.imwrite(str(tmp_path / f'{number}.png'), np.zeros((384, 640, 3), np.uint8))
    file.write_text(json.dumps({
        'images': [{'id': number, 'file_name': f'{number}.png', 'width': 640, 'height': 384} for number in (1, 2)],
        'categories': [{'id': 1, 'name': 'vehicle'}],
        'annotations': [{'id': number, 'image_id': number, 'category_id': 1, 'bbox': [10, 10, 40, 40], 'area': 1600,
                         'iscrowd': 0} for number in (1, 2)]}))
    boxes = np.float32([[10, 10, 50, 50], [100, 100, 150, 200]])
    persons = [Detections(boxes, np.float32([0.5, 0.9]), np.array([0, CLASS_NAMES.index('person')]))] * 2
    found = persons + [Detections(known.boxes_xyxy_px, np.full(len(known), 0.5, np.float32), known.labels)
                       for known in (frame.ground_truth for frame in open_source(drive).frames)]
    judge = load_benchmark('path_accuracy').Judge
    every, marked = judge([file, drive], None, CLASS_NAMES), judge([file], None, CLASS_NAMES)
    assert (every.images, marked.images) == (6, 2)
    assert every.scores(found).ap == pytest.approx(100.0), 'persons of the file are unknown, not absent'
    assert marked.scores(found).ap == pytest.approx(100.0), 'images of other sources are not looked at'
    ranked = every.ranked(found)
    assert ranked.value == pytest.approx(every.scores(found).pooled)
    assert ranked.draws.shape == (300,) and ranked.halves.shape == (10, 2, 31)
    assert judge([file, drive], 1, CLASS_NAMES).images == 2, 'the limit holds for each source'
