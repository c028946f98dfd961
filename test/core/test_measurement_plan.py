import random

from path_spaces import MATRICES

from deadline_perception.core.measurement_plan import fewest_covering


def test_a_few_of_many_paths_run_every_segment_of_them_and_no_other():
    paths = random.Random(1).sample(list(MATRICES), 40)
    few = fewest_covering(paths)
    assert len(few) < 15 and set(few) <= set(paths)
    assert {key for path in few for key in MATRICES.keys(path)} == {
        key for path in paths for key in MATRICES.keys(path)
    }
    assert fewest_covering([]) == []
