import json

import numpy as np
import pytest
from invented_networks import InventedNetwork, InventedRun
from path_spaces import BOTH, space_of

from deadline_perception.core.detections import Detections
from deadline_perception.extras.evaluation.path_accuracy import forked
from deadline_perception.networks.passes import PassesError, PassesFile, PassesNetwork

SPACE = space_of(1, 1, widths=BOTH, scales=BOTH)
IMAGE = np.zeros((100, 200, 3), np.uint8)


class FakeRun(InventedRun):
    """Finds one box, whose score says on what path; notes what ran."""

    def compute(self, name, key):
        self.network.ran.append(key)

    def result(self):
        self.check_finished()
        return Detections([[0, 0, 100, 50]], [0.9 if self.path['scale'] == 0.5 else 0.8], [0])


COARSE = {'0.50': SPACE.parse('r0.50-s11-w1.00-p10-h0')}


def passes():
    network = InventedNetwork(SPACE, run_type=FakeRun)
    network.ran = []
    return network, PassesNetwork(network, network, COARSE)


def test_a_path_of_the_closer_look_has_its_own_name_and_keys_in_its_passes():
    inner, network = passes()
    for path in SPACE:
        single = network.single(path)
        assert str(single) == str(path) and network.path_space.keys(single) == SPACE.keys(path)
    first = tuple(f'coarse.{key}' for key in SPACE.keys(COARSE['0.50']))
    assert set(network.path_space.carriers()) == {*first, *SPACE.carriers()}
    both = network.path_space.largest
    assert network.path_space.keys(both) == (*first, *SPACE.keys(SPACE.largest))
    with pytest.raises(PassesError, match='consists of alternatives'):
        PassesNetwork(network, inner, COARSE)


@pytest.mark.parametrize(
    ('name', 'results'),
    [
        ('c0.50-s00-w1.00-p10-h0', ('coarse', 'fine')),
        ('c0.50-alone', ('coarse',)),
        ('s00-w1.00-p10-h0', ('fine',)),
    ],
)
def test_a_result_so_far_exists_once_the_first_look_has_ended(name, results):
    inner, network = passes()
    run = network.start(IMAGE, network.path_space.parse(name))
    had = []
    while not run.finished:
        run.run_segment()
        had.append(run.result_so_far() is not None)
    assert network.path_space.results(run.path) == results
    keys = network.path_space.keys(run.path)
    assert inner.ran == [key.removeprefix('coarse.') for key in keys]
    end = network.path_space.result_segments[0]
    assert had == ([False] * end + [True] * (len(had) - end) if 'coarse' in results else had)
    assert any(had) is ('coarse' in results)
    assert len(run.result()) == 1


def test_the_closer_look_is_decided_while_it_runs_and_after_the_first_one():
    inner, network = passes()
    run = network.start(IMAGE, network.path_space.largest)
    while run.space.segments[run.segment].name != 'fine':
        run.run_segment()
    run.redirect(run.path.replace(scale=0.5))
    assert run.finish().scores.tolist() == [pytest.approx(0.9)]
    other = network.start(IMAGE, network.path_space.largest)
    while other.space.segments[other.segment].name != 'skip0':
        other.run_segment()
    fork = forked(other)
    fork.redirect(fork.path.replace(skip0='skip'))
    inner.ran.clear()
    fork.finish()
    assert not any(key.startswith('skip0') for key in inner.ran)
    with pytest.raises(ValueError, match='contradicts'):
        other.redirect(other.path.replace(fine='none'))


def test_a_file_declares_the_passes_of_weights(tmp_path):
    file = tmp_path / 'street.passes.json'
    content = {'format': 2, 'coarse': {'0.36': 'r0.36'}, 'model': 'small'}
    file.write_text(json.dumps(content))
    declared = PassesFile.load(file)
    assert declared == PassesFile(2, {'0.36': 'r0.36'}, 'small')
    damages = (
        {'format': 1},
        {'coarse': [1]},
        {'coarse': {}},
        {'merge': {'side': 0.2}},
        {'fusion': 3},
    )
    for wrong in damages:
        file.write_text(json.dumps(content | wrong))
        with pytest.raises(PassesError, match='cannot be used'):
            PassesFile.load(file)
    file.unlink()
    with pytest.raises(PassesError):
        PassesFile.load(file)
