"""A small detector with every operator, quick enough for numerical tests."""

import random
from dataclasses import replace

import pytest
from continuations import continuations

from deadline_perception.extras.faster_rcnn.configuration import COMPACT
from deadline_perception.networks.multi_path.shape import HeadConfig

TINY = replace(
    COMPACT,
    name='tiny',
    input_size=(64, 96),
    stem_channels=16,
    stage_channels=(16, 32, 32, 64),
    skip_groups=((1,), (2,), (1, 2), (1,)),
    scales=(1.0, 0.5),
    norm_group_channels=4,
    pyramid_channels=16,
    proposals=(5, 20, 60),
    nms_candidates=60,
    heads=(HeadConfig(0, (16, 16)), HeadConfig(1, (32,)), HeadConfig(2, (32,))),
)


def redirected_run(network, image, paths: int):
    """One frame that is redirected to a random path at most operators; a number gives the same for every network."""
    rng, space = random.Random(paths), network.path_space
    run = network.start(image, rng.choice(list(space)))
    while not run.finished:
        if space.segments[run.segment].operator and rng.random() < 0.7:
            run.redirect(rng.choice(continuations(space, run.path, run.segment)))
        run.run_segment()
    return run


@pytest.fixture(scope='session')
def tiny_config():
    return TINY


@pytest.fixture()
def tiny_network():
    import torch

    from deadline_perception.extras.faster_rcnn.network import FasterRcnn

    torch.set_num_threads(1)  # beside other work on the machine, several would wait for each other
    torch.manual_seed(0)
    return FasterRcnn(TINY, ('vehicle', 'bike')).eval()
