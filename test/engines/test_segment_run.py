import pytest
from invented_networks import MAGNIFIER, make_magnifier, make_single
from plain_images import noise

from deadline_perception.engines.segment_store import StoreError

IMAGE = noise(48, 64)


def test_a_frame_passes_every_segment_of_its_own_path_and_tells_its_time():
    path = MAGNIFIER.parse('znear-n4')
    run = make_magnifier().start(IMAGE, path)
    with_time = []
    while not run.finished:
        assert run.segment == len(with_time)
        with_time.append(run.run_segment())
    assert run.keys == list(MAGNIFIER.keys(path)) == ['focus@znear', 'look@znear-n4', 'name']
    assert min(with_time) > 0.0 and len(run.result()) == 1
    with pytest.raises(ValueError, match='the frame has passed its last segment'):
        run.run_segment()
    foreign, network = make_single().path_space.largest, make_magnifier()
    with pytest.raises(ValueError, match='whole is none of the network, whose largest is ztele-n4'):
        network.start(IMAGE, foreign)
    with pytest.raises(ValueError, match='path whole contradicts zfar-n1'):
        network.start(IMAGE, MAGNIFIER.smallest).redirect(foreign)


def test_a_network_that_derives_has_all_that_is_asked_of_one():
    network = make_magnifier()
    assert (network.kept_paths, network.quantises) == (None, True)
    assert network.example(IMAGE) is IMAGE
    assert len(network.detect(IMAGE)) == len(network.detect(IMAGE, MAGNIFIER.smallest)) == 1
    for use, said in (
        (network.use_float16, 'float16, which invented does not compute in'),
        (network.use_graphs, 'CUDA graphs, which invented does not run as'),
    ):
        with pytest.raises(StoreError, match=said):
            use()
