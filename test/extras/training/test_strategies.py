import numpy as np
import pytest

from deadline_perception.extras.faster_rcnn.declaration import multi_path_space
from deadline_perception.extras.training.strategies import Sandwich, find_strategy

WIDTHS = {'widths': (1.0, 0.5), 'pyramid_widths': (1.0, 0.5)}
SPACE = multi_path_space(skips_per_stage=(1, 2), proposals=(10, 50), heads=3, **WIDTHS)


@pytest.mark.parametrize('alone_share, progress', [(0.3, 0.3), (0.0, 0.0)])
def test_then_every_step_has_the_largest_a_drawn_and_the_smallest(alone_share, progress):
    generator = np.random.default_rng(0)
    drawn = []
    for _ in range(300):
        first, other, last = Sandwich(alone_share, distillation_weight=0.4).paths(
            SPACE, progress, generator
        )
        assert first.path == SPACE.largest and first.heads[0] == 2
        assert last.path.replace(proposals=10) == SPACE.smallest and last.path['proposals'] == 50
        assert last.heads == (0,) and other.path in SPACE
        assert set(other.heads) == {int(other.path['head']), 0}
        assert {one.distillation_weight for one in (first, other, last)} == {0.4}
        drawn.append(other.path)
    assert len(set(drawn)) > 100  # of 192
    assert {path['proposals'] for path in drawn} == {10, 50}


@pytest.mark.parametrize(
    'name, message',
    [
        ('fast', "strategy is 'fast', expected one of ns-ns, .* or alone:PATH"),
        ('alone:full', "execution path is 'full'"),
        ('alone:s010-w0.50-p51-h1', "path is 's010-w0.50-p51-h1', expected"),
    ],
)
def test_unknown_strategies_are_refused(name, message):
    with pytest.raises(ValueError, match=message):
        find_strategy(name, SPACE)
