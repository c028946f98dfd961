from __future__ import annotations

import random
from collections import Counter

import pytest

from deadline_perception.core.measurement_plan import (
    covering_paths,
    distinct_paths,
    fewest_covering,
    interleave,
)
from deadline_perception.extras.faster_rcnn.declaration import multi_path_space


@pytest.fixture
def path_space(network):
    return network.path_space


def test_every_segment_is_run_often_enough_and_no_more_frames_than_needed(path_space):
    paths = covering_paths(path_space, 10, random.Random(0))
    counts = Counter(name for path in paths for name in path_space.keys(path))
    assert min(counts[name] for name in path_space.carriers()) >= 10
    assert (
        len(paths) <= 10 * 8 + 8
    )  # the rarest segments are 2 heads x 2 pyramid widths x 2 numbers of proposals


def test_a_few_of_many_paths_run_every_segment_of_them_and_no_other(path_space):
    paths = random.Random(1).sample(list(path_space), 40)
    few = fewest_covering(paths)
    assert len(few) < 15 and set(few) <= set(paths)
    assert {key for path in few for key in path_space.keys(path)} == {
        key for path in paths for key in path_space.keys(path)
    }
    assert fewest_covering([]) == []


def test_only_the_segments_that_matter_are_covered(path_space):
    paths = list(path_space)
    wanted = {'stage1', *sorted(path_space.carriers())[-2:]} & set(path_space.carriers())
    few = fewest_covering(paths, wanted)
    assert len(few) <= len(wanted) < len(fewest_covering(paths))
    assert wanted <= {key for path in few for key in path_space.keys(path)}
    assert fewest_covering(paths, ()) == []


def test_a_network_of_a_single_path_is_covered():
    space = multi_path_space(
        skips_per_stage=(0,), widths=(1.0,), pyramid_widths=(1.0,), proposals=(5,), heads=1
    )
    assert covering_paths(space, 3, random.Random(0)) == [space.largest] * 3
    assert distinct_paths(space, 4, random.Random(0)) == [space.largest]


def test_distinct_paths_hold_the_extremes_and_no_path_twice(path_space):
    paths = distinct_paths(path_space, 12, random.Random(0))
    assert len(set(paths)) == 12
    assert {path_space.smallest, path_space.largest} <= set(paths)


def test_of_some_paths_no_other_is_taken(path_space):
    some = random.Random(1).sample(list(path_space), 30)
    counts = Counter(
        key for path in covering_paths(some, 4, random.Random(0)) for key in path_space.keys(path)
    )
    assert min(counts.values()) >= 4
    assert counts.keys() == {key for path in some for key in path_space.keys(path)}
    assert set(covering_paths(some, 4, random.Random(0))) <= set(some)
    few = distinct_paths(some, 9, random.Random(0), first=some[4:7])
    assert (
        few[:5] == [some[0], some[-1], *some[4:7]] and len(set(few)) == 9 and set(few) <= set(some)
    )
    assert distinct_paths(some, 31, random.Random(0)) == some


def test_interleaving_spreads_the_shorter_list_evenly():
    merged = interleave(['a', 'b', 'c', 'd', 'e', 'f'], ['X', 'Y'])
    assert ''.join(name for _, name in merged) == 'abXcdeYf'
    assert [name for from_second, name in merged if from_second] == ['X', 'Y']


def test_no_repeats_are_refused(path_space):
    with pytest.raises(ValueError, match='repeats is 0'):
        covering_paths(path_space, 0, random.Random(0))
