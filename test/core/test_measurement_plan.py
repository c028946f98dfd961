import random
from collections import Counter

import pytest
from path_spaces import MATRICES, ONE_PATH

from deadline_perception.core.measurement_plan import (
    covering_paths,
    distinct_paths,
    fewest_covering,
    interleave,
)


def test_every_segment_is_run_often_enough_and_no_more_frames_than_needed():
    paths = covering_paths(MATRICES, 10, random.Random(0))
    counts = Counter(name for path in paths for name in MATRICES.keys(path))
    assert min(counts[name] for name in MATRICES.carriers()) >= 10
    # The rarest segments are 2 heads x 2 pyramid widths x 2 numbers of proposals.
    assert len(paths) <= 10 * 8 + 8
    with pytest.raises(ValueError, match='repeats is 0'):
        covering_paths(MATRICES, 0, random.Random(0))


def test_a_few_of_many_paths_run_every_segment_of_them_and_no_other():
    paths = random.Random(1).sample(list(MATRICES), 40)
    few = fewest_covering(paths)
    assert len(few) < 15 and set(few) <= set(paths)
    assert {key for path in few for key in MATRICES.keys(path)} == {
        key for path in paths for key in MATRICES.keys(path)
    }
    assert fewest_covering([]) == []


def test_only_the_segments_that_matter_are_covered():
    paths = list(MATRICES)
    wanted = {'stage1', *sorted(MATRICES.carriers())[-2:]} & set(MATRICES.carriers())
    few = fewest_covering(paths, wanted)
    assert len(few) <= len(wanted) < len(fewest_covering(paths))
    assert wanted <= {key for path in few for key in MATRICES.keys(path)}
    assert fewest_covering(paths, ()) == []


def test_a_network_of_a_single_path_is_covered():
    assert covering_paths(ONE_PATH, 3, random.Random(0)) == [ONE_PATH.largest] * 3
    assert distinct_paths(ONE_PATH, 4, random.Random(0)) == [ONE_PATH.largest]


def test_of_some_paths_no_other_is_taken():
    some = random.Random(1).sample(list(MATRICES), 30)
    counts = Counter(
        key for path in covering_paths(some, 4, random.Random(0)) for key in MATRICES.keys(path)
    )
    assert min(counts.values()) >= 4
    assert counts.keys() == {key for path in some for key in MATRICES.keys(path)}
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
