"""The tensor forms are the reference: what was chosen, cut out and found on arrays is the same."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from made_up_detector import TINY
from scipy.sparse import csr_array
from torchvision.ops import batched_nms

from deadline_perception.core.detections import Detections
from deadline_perception.engines.eager import as_tensors
from deadline_perception.extras.weights_writer import build_detector
from deadline_perception.networks.multi_path import array_forms as forms
from deadline_perception.networks.multi_path.dense.configuration import STREET


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


def normal(rng, *shape, scale=1.0):
    return rng.normal(0.0, scale, shape).astype(np.float32)


@pytest.mark.parametrize('seed', range(4))
@pytest.mark.parametrize('config', [TINY, TINY_DENSE])
def test_regions_are_chosen_and_cut_out_as_by_tensors(config, seed):
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


def test_decoding_is_what_torchvision_suppresses_of_all_classes():
    torch.manual_seed(2)
    regions = torch.rand(40, 2) * 60
    regions = torch.cat((regions, regions + torch.rand(40, 2) * 30 + 2), 1)
    logits = torch.randn(40, 4) * 2
    head = logits.numpy(), np.zeros((40, 4), np.float32)
    found = forms.detections(head, regions.numpy(), None, (100, 100))
    boxes, scores, labels = map(torch.from_numpy, found)
    probabilities = logits.softmax(1)[:, 1:]
    region, label = (probabilities > 0.05).nonzero(as_tuple=True)
    kept = batched_nms(regions[region], probabilities[region, label], label, 0.5)[:100]
    torch.testing.assert_close(boxes, regions[region[kept]])
    torch.testing.assert_close(scores, probabilities[region[kept], label[kept]])
    assert torch.equal(labels, label[kept])


def test_what_is_not_finite_is_no_empty_road():
    """NaN was below the threshold of scores, so that a network that had gone NaN looked like an empty road."""
    regions = np.full((4, 4), [10, 10, 50, 50], np.float32)
    for broken in range(2):
        head = np.zeros((4, 3), np.float32), np.zeros((4, 4), np.float32)
        head[broken][1] = np.nan
        with pytest.raises(ValueError, match='boxes or scores hold NaN or infinity'):
            Detections(*forms.detections(head, regions, None, (100, 100)))


# Where the file lies, and where only an import finds it.
@pytest.mark.parametrize('places', [sys.path, []])
def test_regions_are_cut_out_without_the_package_of_sparse_matrices(monkeypatch, places):
    rng, chosen = np.random.default_rng(0), csr_array(np.array([[0, 2, 0], [1, 0, 4]], np.float32))
    rows, product = normal(rng, 3, 5), np.zeros((2, 5), np.float32)
    monkeypatch.setattr(sys, 'path', places)
    products = forms._sparse_products.__wrapped__()
    arrays = chosen.indices, chosen.data, rows.ravel(), product.ravel()
    products.csr_matvecs(2, 3, 5, chosen.indptr, *arrays)
    assert np.array_equal(product, chosen @ rows)
