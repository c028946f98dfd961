import numpy as np

from deadline_perception.execution_path import PathSpace
from deadline_perception.learning.strategies import Sandwich

SPACE = PathSpace((1, 2), (1.0, 0.5), (1.0, 0.5), (10, 50), 3)


def test_largest_path_trains_alone_first():
    for one in Sandwich(alone_share=0.3).paths(SPACE, 0.29, np.random.default_rng(0)),:
        assert [trained.path for trained in one] == [SPACE.largest]
        assert one[0].heads[0] == 2 and len(one[0].heads) == 2


def test_then_every_step_has_the_largest_and_another_of_the_space():
    generator = np.random.default_rng(0)
    seconds = set()
    for _ in range(300):
        trained = Sandwich(alone_share=0.3).paths(SPACE, 0.5, generator)
        assert trained[0].path == SPACE.largest and len(trained) == 2
        assert trained[1].path in SPACE and trained[1].path.head in trained[1].heads
        seconds.add(trained[1].path)
    assert SPACE.smallest in seconds and len(seconds) > 40


def test_one_head_is_trained_once():
    space = PathSpace((1,), (1.0,), (1.0,), (10,), 1)
    assert Sandwich().paths(space, 0.0, np.random.default_rng(0))[0].heads == (0,)
