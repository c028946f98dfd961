import random
from collections import Counter

import pytest
from path_spaces import MATRICES

from deadline_perception.core.measurement_plan import covering_paths, fewest_covering


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
