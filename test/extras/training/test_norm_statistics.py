from dataclasses import replace
from types import SimpleNamespace

import torch
from plain_images import noise

from deadline_perception.extras.faster_rcnn.network import FasterRcnn
from deadline_perception.extras.training.norm_statistics import measure_statistics
from deadline_perception.networks.multi_path.operators import SlicedFrozenNorm

IMAGE = noise(64, 96)
STILL = SimpleNamespace(draw=lambda generator: SimpleNamespace(image_bgr=IMAGE))


def test_norms_give_their_shift_and_scale_on_what_was_measured(tiny_network):
    """One still image: mean and deviation of every width's outputs are what the norm was told to give."""
    network = FasterRcnn(replace(tiny_network.config, scales=(1.0,)), tiny_network.class_names)
    stem = network.backbone.stem
    for norm in (stem.norm1, stem.norm2):
        torch.nn.init.uniform_(norm.weight, 0.5, 2.0)
        torch.nn.init.normal_(norm.bias)
    assert measure_statistics(network, STILL) == 48
    pixels = network.normalise(torch.from_numpy(IMAGE).permute(2, 0, 1)[None].float())
    with torch.no_grad():
        for width in (0.25, 0.5, 0.75, 1.0):
            channels = round(16 * width)
            first = stem.convolution1(pixels, channels, stem.norm1)
            second = stem.convolution2(first.relu(), channels, stem.norm2)
            for norm, values in ((stem.norm1, first), (stem.norm2, second)):
                bias, scale = (
                    tensor[norm.rows[channels], :channels] for tensor in (norm.bias, norm.weight)
                )
                deviation, mean = torch.std_mean(values, (0, 2, 3))
                torch.testing.assert_close(mean, bias, atol=1e-3, rtol=1e-3)
                torch.testing.assert_close(deviation, scale, atol=1e-3, rtol=1e-2)
    for module in network.modules():
        if isinstance(module, SlicedFrozenNorm):
            assert module.folds
            assert all((module.mean[row, :count] != 0).all() for count, row in module.rows.items())
