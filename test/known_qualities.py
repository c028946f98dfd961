"""Path qualities that are known exactly, by a formula."""

import math

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.extras.faster_rcnn.declaration import multi_path_space

SPACE = multi_path_space(
    skips_per_stage=(1, 1),
    widths=(1.0, 0.75, 0.5, 0.25),
    pyramid_widths=(1.0, 0.5),
    proposals=(10, 25, 50, 100),
    heads=3,
)
PATHS = list(SPACE)


def logistic_ap(path: ExecutionPath) -> float:
    """A made-up truth that adds up on the logit scale."""
    return 1 / (
        1
        + math.exp(
            2.5 - 0.3 * sum(path.settings[:2]) - 2.0 * path['width'] - 0.2 * int(path['head'])
        )
    )


def sample(count: int, seed: int = 0) -> list[ExecutionPath]:
    return [PATHS[i] for i in np.random.default_rng(seed).choice(len(PATHS), count, replace=False)]
