"""What the benchmarks of accuracy make of their measurements, with scores made up by hand."""
from __future__ import annotations

import json
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from deadline_perception.datasets.source import open_source
from deadline_perception.detector.declaration import multi_path_space
from deadline_perception.detector.detections import Detections
from deadline_perception.rendering.drive import CLASS_NAMES

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


def test_choices_are_judged_within_the_times_allowed(load_benchmark):
    halves = dict(zip(PATHS[:2], ((20.0, 22.0), (30.0, 26.0))))
    times_ms = dict(zip(PATHS[:2], (10.0, 1000.0)))
    rows = load_benchmark('held_out_choice').held_out(times_ms, same_on_every_draw(halves), PATHS[:2], PATHS[1])
    # One of 40 times allows the second path: it looked 4 better than it is, the first 2 worse, and the other way round.
    assert [row['realised'] for row in rows] == pytest.approx(2 * [(39 * 22 + 26) / 40] + 2 * [(39 * 20 + 30) / 40])
    assert [row['optimism'] for row in rows] == pytest.approx(2 * [(39 * -2 + 4) / 40] + 2 * [(39 * 2 - 4) / 40])


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


def test_gains_too_small_make_no_useful_point(load_benchmark):
    choice = load_benchmark('held_out_choice')
    pooled = dict(zip(PATHS, (20.0, 20.1, 20.25, 20.4)))
    assert choice.frontier_of(TIMES_MS, pooled) == PATHS
    assert choice.useful(PATHS, pooled) == [PATHS[0], PATHS[2]]


@pytest.mark.parametrize(('gain', 'low', 'of_seeds', 'pays'), [
    (1.0, 0.1, [], True), (1.0, -0.1, [], False),
    (2.0, -0.1, [1.5, 2.0, 2.5], True), (2.0, 1.0, [0.5, 2.0, 3.5], False),
    (0.9, 0.1, [1.5, 2.0, 2.5], False)])
def test_an_operator_pays_beyond_the_range_of_the_seeds(load_benchmark, gain, low, of_seeds, pays):
    assert load_benchmark('path_accuracy').verdict(gain, low, of_seeds)['pays'] is pays


def test_weights_trained_alone_are_held_against_as_much_training(load_benchmark):
    """A model soup of three seeds has had three times the compute, so their mean is judged."""
    path_accuracy = load_benchmark('path_accuracy')

    class Judge:
        def scores(self, found):
            return path_accuracy.Scores(found, found + 20, found + 10)

        def resampled_ap(self, found):
            return np.full(5, found)

    row = path_accuracy.alone_row(Judge(), PATHS[3], 'alone', 37.0, [34.0, 35.0, 36.0], 35.4, False)
    assert row['points_under'] == pytest.approx(0.4) and row['goal'] == 0.5
    assert row['interval_points'] == pytest.approx([0.4, 0.4])
    assert row['ap_of_seeds'] == [34.0, 35.0, 36.0] and (row['ap'], row['ap_alone']) == (37.0, 35.4)
    single = path_accuracy.alone_row(Judge(), PATHS[3], 'alone', 37.0, [], 35.4, True)
    assert single['points_under'] == pytest.approx(-1.6) and single['goal'] == 0.2


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


def test_a_goal_says_by_which_images_it_is_judged(load_benchmark):
    figures = load_benchmark('path_figures')
    full, cheapest = str(SPACE.largest), str(SPACE.smallest)
    result = {'paths': [{'path': full, 'ms': 90.0, 'ap': 41.0, 'pooled': 50.0, 'ranked': 45.0},
                        {'path': cheapest, 'ms': 3.0, 'ap': 9.0, 'pooled': 20.0, 'ranked': 11.0}],
              'held_out': [{'split': 0, 'by': 'expected', 'useful': [full] * count} for count in (17, 14)],
              'ranked_by': ['vehicle', 'bike', 'traffic_light'], 'images': 286,
              'pooled_classes': ['vehicle', 'traffic_light'], 'pooled_images': 142,
              'operators': [{'operator': 'width', 'pays': True}], 'pays_beyond': 'the range of the seeds',
              'worth_of_expected': {'expected': {'best_other_over_full': -0.3}}, 'old': [], 'alone': []}
    rows = [(row['by'], row['figure'], row['met']) for row in figures.goal_rows(result, SPACE)]
    assert rows == [('AP, 142 images', 41.0, True), ('V+L, 142 images', 50.0, False), ('time', 30.0, True),
                    ('3 classes, 286 images', 14, False), ('3 classes, 286 images', '1 of 1', True),
                    ('3 classes, 286 images', -0.3, True)]


def test_a_measured_frontier_leaves_out_what_is_longer_and_no_better(load_benchmark):
    rows = [{'ms': ms, 'pooled': pooled} for ms, pooled in ((9.0, 20.0), (5.0, 10.0), (7.0, 9.0), (9.0, 25.0))]
    assert load_benchmark('path_figures').measured_frontier(rows) == [(5.0, 10.0), (9.0, 25.0)]


def test_each_point_of_an_older_frontier_is_held_against_the_new_paths(load_benchmark):
    figures = load_benchmark('path_figures')
    old = [{'path': name, 'ms': ms, 'pooled': pooled} for name, ms, pooled in (
        ('a', 30.0, 28.0), ('b', 60.0, 27.0), ('c', 90.0, 45.0), ('d', 300.0, 55.0))]
    new = [{'ms': ms, 'pooled': pooled} for ms, pooled in ((9.0, 29.0), (40.0, 46.0), (100.0, 50.0))]
    rows = figures.against_old(new, old)
    assert [row['path'] for row in rows] == ['a', 'c', 'd']  # b is longer than a and no better
    assert [row['share'] for row in rows] == [pytest.approx(0.3), pytest.approx(40 / 90), None]
    assert [row['gain'] for row in rows] == pytest.approx([1.0, 1.0, -5.0])
    goals = figures.old_goal_rows(new, old, new[0])
    assert [goal['met'] for goal in goals] == [False, False, True]
    assert [goal['met'] for goal in figures.old_goal_rows([{'ms': 9.0, 'pooled': 60.0}], old, new[0])] == [True] * 3


def test_kinds_of_frames_take_turns_and_the_first_round_is_dropped(load_benchmark):
    asked = []

    def frame(kind, ms):
        return lambda image: asked.append((kind, image)) or (1000.0 if len(asked) <= 2 else ms)

    times = load_benchmark('path_accuracy').measured_times({'old': frame('old', 3.0), 'new': frame('new', 1.0)}, 5, 4)
    assert times == {'old': 3.0, 'new': 1.0}
    assert [kind for kind, _ in asked].count('old') == [kind for kind, _ in asked].count('new') == 5
    assert {image for _, image in asked} <= set(range(5))


def test_a_served_network_answers_and_tells_its_errors(load_benchmark, tmp_path):
    served = load_benchmark('served')
    file = tmp_path / 'serves.py'
    file.write_text(f'import sys\nsys.path.insert(0, {str(Path(served.__file__).parent)!r})\nfrom served import serve\n'
                    f'def halve(number):\n    print("noise")\n    return number / 2\n'
                    f'def divide(number):\n    return 1 / number\n'
                    f'serve({{"halve": halve, "divide": divide}})\n')
    with served.Served([sys.executable, str(file)]) as other:
        assert other.ask('halve', 3) == 1.5
        with pytest.raises(RuntimeError, match='ZeroDivisionError'):
            other.ask('divide', 0)
        assert other.ask('halve', 5) == 2.5
    with pytest.raises(RuntimeError, match='expected an answer'), served.Served([sys.executable, '-c', 'pass']) as gone:
        gone.answer()
