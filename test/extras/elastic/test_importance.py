import numpy as np
import torch

from deadline_perception.extras.elastic.importance import OutputSamples


def selected(outputs):
    samples = OutputSamples(outputs.shape[1])
    samples.add(outputs)
    return samples.selection()


def order_of(scores):
    return scores.argsort(descending=True, stable=True).tolist()


def test_selection_by_hand():
    # Mean squares 4, 9 and 1. The second comes first; of the first it explains 6^2 / 9 = 4, all of it; of the third
    # none.
    outputs = torch.tensor(
        [[2.0, 3.0, 1.0], [2.0, 3.0, -1.0], [-2.0, -3.0, 1.0], [-2.0, -3.0, -1.0]]
    )
    found = selected(outputs)
    assert order_of(found) == [1, 2, 0]
    np.testing.assert_allclose(found, [0.0, 9.0, 1.0], atol=1e-9)
