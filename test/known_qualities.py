import math

import numpy as np
from path_spaces import BOTH, space_of

from deadline_perception.core.execution_path import ExecutionPath

WIDTHS = (1.0, 0.75, 0.5, 0.25)
SPACE = space_of(1, 1, widths=WIDTHS, pyramid_widths=BOTH, proposals=(10, 25, 50, 100), heads=3)
PATHS = list(SPACE)


def logistic_ap(path: ExecutionPath) -> float:
    """A made-up truth that adds up on the logit scale."""
    of_head = 0.2 * int(path['head'])
    return 1 / (1 + math.exp(2.5 - 0.3 * sum(path.settings[:2]) - 2.0 * path['width'] - of_head))


def sample(count: int, seed: int = 0) -> list[ExecutionPath]:
    return [PATHS[i] for i in np.random.default_rng(seed).choice(len(PATHS), count, replace=False)]
