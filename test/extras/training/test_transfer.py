import numpy as np
import pytest
import torch
from made_up_labels import known

from deadline_perception.extras.training.samples import Sample
from deadline_perception.extras.training.transfer import to_batch, to_device


@pytest.mark.parametrize(
    'device',
    [
        'cpu',
        pytest.param(
            'cuda',
            marks=pytest.mark.skipif(not torch.cuda.is_available(), reason='needs a CUDA device'),
        ),
    ],
)
@pytest.mark.parametrize(
    'values',
    [np.arange(12).reshape(3, 4), np.float32([[1, 2], [3, 4]]).T, np.zeros((0, 4), np.uint8)],
)
def test_values_and_their_type_arrive(device, values):
    moved = to_device(values, torch.device(device))
    assert moved.device.type == device and np.array_equal(moved.cpu().numpy(), values)
    assert moved.cpu().numpy().dtype == values.dtype


def test_samples_become_pixel_values():
    images = np.random.default_rng(0).integers(0, 256, (2, 4, 6, 3), dtype=np.uint8)
    samples = [Sample(image, known(), np.ones(1, bool)) for image in images]
    batch = to_batch(samples, torch.device('cpu'))
    assert batch.dtype == torch.float32 and batch.is_contiguous(memory_format=torch.channels_last)
    assert np.array_equal(batch.numpy(), images.transpose(0, 3, 1, 2))
