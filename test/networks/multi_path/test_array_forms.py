"""The tensor forms are the reference: what was chosen, cut out and found on arrays is the same."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from made_up_detector import TINY

from deadline_perception.engines.eager import as_tensors
from deadline_perception.networks.multi_path import array_forms as forms
from deadline_perception.networks.multi_path.checkpoint import build_detector
from deadline_perception.networks.multi_path.dense.configuration import STREET
from deadline_perception.networks.yolox.checkpoint import build_yolox
from deadline_perception.networks.yolox.configuration import YOLOX_NANO


def test_anchors_are_centred_with_the_asked_shape():
    anchors = forms.anchors((16, 32), 8, (4.0, 8.0), (1.0, 4.0))
    assert anchors.shape == (2 * 4 * 4, 4)
    assert anchors[0].tolist() == [2.0, 2.0, 6.0, 6.0]
    assert anchors[1].tolist() == [3.0, 0.0, 5.0, 8.0]  # ratio 4: 2 px wide, 8 px high
    assert anchors[4].tolist() == [10.0, 2.0, 14.0, 6.0]


TINY_DENSE = replace(STREET, name='tiny-dense', input_size=(96, 160), scales=(1.0,))


def agree(network, path, segment, arrays):
    """Both forms of a segment; returns what the array form gives."""
    tensors = {name: as_tensors(values) for name, values in arrays.items()}
    with torch.inference_mode():
        expected = network.compute(segment, path, tensors)
    found = network.array_form(segment, path)(arrays)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other.numpy(), atol=1e-3, rtol=1e-4)
    return found


def normal(rng, *shape, scale=1.0, mean=0.0):
    return rng.normal(mean, scale, shape).astype(np.float32)


@pytest.mark.parametrize('seed', range(4))
@pytest.mark.parametrize('config', [TINY, TINY_DENSE])
def test_regions_are_chosen_cut_out_and_judged_as_by_tensors(config, seed):
    network = build_detector(config, ('vehicle', 'bike'))
    rng, space = np.random.default_rng(seed), network.path_space
    path = space.largest if seed % 2 else space.smallest.replace(head=space.largest['head'])
    run = network.start(rng.integers(0, 256, (70, 90, 3), dtype=np.uint8), path)
    while space.segments[run.segment].name != 'proposals':
        run.run_segment()
    # Noise as large as the differences of anchors, so that many boxes are chosen, overlap and reach beyond the image.
    rpn = tuple(normal(rng, *value.shape, scale=0.7) for value in run._values['rpn'])
    chosen = agree(network, path, 'proposals', {'rpn': rpn})
    assert (chosen[0] != 0).any(1).sum() > 3
    rows = sum(value[0, 0].numel() for value in run._values['pyramid'])
    pyramid = (normal(rng, rows, run._values['pyramid'][0].shape[1]),)
    (regions,) = agree(network, path, 'regions', {'pyramid': pyramid, 'proposals': chosen})
    assert regions.any()
    head = normal(rng, len(regions), 3, scale=2.0), normal(rng, len(regions), 4)
    assert len(agree(network, path, 'post', {'head': head, 'proposals': chosen})[0])
    if config is TINY_DENSE:
        alone = path.replace(head='0')
        agree(network, alone, 'post', {'head': (), 'proposals': chosen})


@pytest.mark.parametrize('seed', range(3))
def test_yolox_finds_the_same_on_arrays(seed):
    network = build_yolox(YOLOX_NANO, tuple('abcdef'))
    path, rng = network.path_space.smallest, np.random.default_rng(seed)
    height, width = network.input_size_on(path)
    maps = tuple(
        normal(rng, 1, height // stride, width // stride, channels, mean=mean)
        for stride in (8, 16, 32)
        for channels, mean in ((4, 0.0), (1, -3.0), (sum(network.sources), -2.0))
    )
    assert 10 < len(agree(network, path, 'post', {'head': maps})[0]) <= 100


def test_nothing_certain_gives_nothing_and_nan_is_passed_on():
    boxes, scores = np.array([[0, 0, 9, 9], [1, 1, 9, 9]], np.float32), np.zeros((2, 3), np.float32)
    assert [len(part) for part in forms.suppressed(boxes, scores, (9, 9))] == [0, 0, 0]
    scores[1, 2] = np.nan
    assert np.isnan(forms.suppressed(boxes, scores, (9, 9))[1]).all()
    boxes[0, 0] = np.nan
    assert np.isnan(forms.suppressed(boxes, scores + 1, (9, 9))[0]).any()
    shapes = ((1, 4, 4), (1, 2, 2))
    assert np.isfinite(
        forms.region_features(np.ones((20, 3), np.float32), shapes, boxes, (8, 16))
    ).all()


@pytest.mark.parametrize('count', [1, 200])
def test_suppression_keeps_what_torchvision_keeps(count):
    from torchvision.ops import nms

    rng = np.random.default_rng(count)
    low = rng.uniform(0, 50, (count, 2))
    boxes = np.concatenate((low, low + rng.uniform(1, 30, (count, 2))), 1).astype(np.float32)
    falling = torch.arange(count, 0, -1).float()
    assert forms.nms(boxes, 0.4).tolist() == nms(torch.from_numpy(boxes), falling, 0.4).tolist()
