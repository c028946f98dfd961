import numpy as np
import torch

from deadline_perception.extras.elastic.importance import OutputSamples


def test_selection_by_hand():
    # Mean squares 4, 9 and 1. The second comes first; of the first it explains 6^2 / 9 = 4, all of it; of the third
    # none.
    outputs = torch.tensor(
        [[2.0, 3.0, 1.0], [2.0, 3.0, -1.0], [-2.0, -3.0, 1.0], [-2.0, -3.0, -1.0]]
    )
    samples = OutputSamples(3)
    samples.add(outputs)
    found = samples.selection()
    assert found.argsort(descending=True, stable=True).tolist() == [1, 2, 0]
    np.testing.assert_allclose(found, [0.0, 9.0, 1.0], atol=1e-9)
