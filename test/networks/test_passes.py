import json

import numpy as np
import pytest
from path_spaces import BOTH, space_of

from deadline_perception.core.detections import Detections, box_sizes
from deadline_perception.engines.eager import Eager
from deadline_perception.engines.segment_run import Network, SegmentRun
from deadline_perception.extras.evaluation.path_accuracy import forked
from deadline_perception.networks.passes import (
    PassesError,
    PassesFile,
    PassesNetwork,
    merged,
)

SPACE = space_of(1, 1, widths=BOTH, scales=BOTH)
IMAGE = np.zeros((100, 200, 3), np.uint8)
SIZE = IMAGE.shape[:2]


class FakeRun(SegmentRun):
    """Finds one box, whose score says on what path; notes what ran."""

    def __init__(self, network, path):
        super().__init__(network.path_space, path)
        self.network = network

    def compute(self, name, key):
        self.network.ran.append(key)

    def result(self):
        self.check_finished()
        return self.network.found(self.path)


class FakeNetwork(Network):
    path_space = SPACE
    result_type = Detections
    device, input_size, engine = 'cpu', (64, 128), Eager()

    def __init__(self, name='street', class_names=('vehicle', 'person'), found=None):
        self.config_name = self.network_hash = self.weights_hash = name
        self.class_names, self.ran = class_names, []
        self.found = found or (
            lambda path: Detections([[0, 0, 100, 50]], [0.9 if path['scale'] == 0.5 else 0.8], [0])
        )

    def start(self, image, path):
        return FakeRun(self, path)


def coarse_paths(space=SPACE):
    return {'0.50': space.parse('r0.50-s11-w1.00-p10-h0')}


def passes(**options):
    network = FakeNetwork(**options)
    return network, PassesNetwork(network, network, coarse_paths())


def test_either_look_may_be_left_out_and_not_both():
    _, network = passes()
    space = network.path_space
    assert len(space) == len(SPACE) * 2 + 1  # without the first look, with it, and it alone
    assert str(space.largest) == 'c0.50-s00-w1.00-p10-h0'
    assert str(space.largest.replace(fine='none')) == 'c0.50-alone'
    assert space.smallest.settings[:2] == (0, 1)
    assert space.largest.replace(coarse='none', fine='none') == space.largest.replace(coarse='none')
    for path in space:
        assert space.parse(str(path)) == path


def test_a_path_of_the_closer_look_has_its_own_name_and_keys_in_its_passes():
    _, network = passes()
    for path in SPACE:
        single = network.single(path)
        assert str(single) == str(path) and network.path_space.keys(single) == SPACE.keys(path)
    first = tuple(f'coarse.{key}' for key in SPACE.keys(coarse_paths()['0.50']))
    assert set(network.path_space.carriers()) == {*first, *SPACE.carriers()}
    both = network.path_space.largest
    assert network.path_space.keys(both) == (*first, *SPACE.keys(SPACE.largest))


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


def test_the_result_of_two_looks_is_what_both_found_merged():
    inner, network = passes()
    run = network.start(IMAGE, network.path_space.largest)
    found = run.finish()
    coarse, fine = inner.found(coarse_paths()['0.50']), inner.found(SPACE.largest)
    expected = merged(coarse, fine, SIZE, network.fusion)
    assert found.boxes_xyxy_px.tolist() == expected.boxes_xyxy_px.tolist()
    assert found.scores.tolist() == expected.scores.tolist() == [pytest.approx(0.9)]


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


def test_two_networks_keep_their_keys_apart_and_share_their_classes():
    found = Detections([[0, 0, 9, 9]], [0.5], [1])
    small = FakeNetwork('small', ('person', 'dog'), lambda path: found)
    network = PassesNetwork(FakeNetwork(), small, coarse_paths())
    assert network.class_names == ('vehicle', 'person', 'dog')
    assert network.detect(IMAGE).labels.tolist() == [0, 2]
    keys = network.path_space.keys(network.path_space.largest)
    first = [f'coarse.{key}' for key in SPACE.keys(coarse_paths()['0.50'])]
    assert [key for key in keys if key.startswith('coarse.')] == first
    assert network.config_name == 'street-after-small'
    assert network.network_hash not in ('street', 'small')


def test_networks_that_cannot_be_passes_are_refused(foreign_path):
    network = passes()[1]
    for fine, coarse, paths, message in (
        (FakeNetwork(), FakeNetwork(), {}, 'no path of a first look'),
        (FakeNetwork(), FakeNetwork(), {'x': foreign_path}, 'is none of street'),
        (network, FakeNetwork(), coarse_paths(), 'consists of alternatives'),
    ):
        with pytest.raises(PassesError, match=message):
            PassesNetwork(fine, coarse, paths)


def test_the_size_of_a_box_is_the_root_of_its_share_of_the_image():
    assert box_sizes([[0, 0, 200, 100], [0, 0, 50, 25], [9, 9, 9, 20]], SIZE) == pytest.approx(
        [1.0, 0.25, 0.0]
    )


def test_a_file_declares_the_passes_of_weights(tmp_path):
    file = tmp_path / 'street.passes.json'
    content = {'format': 2, 'coarse': {'0.36': 'r0.36'}, 'model': 'small'}
    file.write_text(json.dumps(content))
    declared = PassesFile.load(file)
    assert declared == PassesFile(2, {'0.36': 'r0.36'}, 'small')
    for wrong in ({'format': 1}, {'coarse': [1]}, {'merge': {'side': 0.2}}, {'fusion': 3}):
        file.write_text(json.dumps(content | wrong))
        with pytest.raises(PassesError, match='cannot be used'):
            PassesFile.load(file)
    file.unlink()
    with pytest.raises(PassesError):
        PassesFile.load(file)
