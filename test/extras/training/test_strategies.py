import numpy as np
import pytest

from deadline_perception.extras.faster_rcnn.declaration import multi_path_space
from deadline_perception.extras.training.strategies import (
    STRATEGIES,
    OnePath,
    Sandwich,
    find_strategy,
)

WIDTHS = {'widths': (1.0, 0.5), 'pyramid_widths': (1.0, 0.5)}
SPACE = multi_path_space(skips_per_stage=(1, 2), proposals=(10, 50), heads=3, **WIDTHS)
PLAIN = multi_path_space(
    skips_per_stage=(0,), widths=(1.0,), pyramid_widths=(1.0,), proposals=(10,), heads=1
)


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


@pytest.mark.parametrize('name', ['alone_share', 'distillation_weight'])
@pytest.mark.parametrize('share', [-0.1, 1.1, float('nan')])
def test_shares_outside_their_range_are_refused(name, share):
    with pytest.raises(ValueError, match=f'{name} is'):
        Sandwich(**{name: share})


@pytest.mark.parametrize('name', STRATEGIES)
def test_network_without_choices_is_trained_as_it_is(name):
    for trained in STRATEGIES[name].paths(PLAIN, 0.5, np.random.default_rng(0)):
        assert trained.path == PLAIN.largest and trained.heads == (0,)


@pytest.mark.parametrize('name', ['ns-ns', 'rs-ns', 'ns-rs', 'rs-rs'])
def test_strategies_of_the_paper_draw_one_path_per_step(name):
    skips, switches = (part == 'rs' for part in name.split('-'))
    assert STRATEGIES[name] == OnePath(random_skipping=skips, random_switching=switches)
    generator, paths, heads = np.random.default_rng(0), set(), set()
    for _ in range(100):
        (trained,) = STRATEGIES[name].paths(SPACE, 0.0, generator)
        assert trained.aggregated is not switches and trained.path in SPACE
        paths.add(trained.path)
        heads.add(trained.heads)
    assert (len(paths) > 30) if skips else paths == {SPACE.largest}
    assert heads == ({(0,), (1,), (2,)} if switches else {(0, 1, 2)})


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
