"""A head that the user reads with a function of their own, `decode: package.module:function` in the set file.

The function takes the outputs of one image, a list of arrays in the order of the file, and the height and width of the
input in px; it returns boxes `[N, 4]` (corners in px of the input), scores `[N]` from 0 to 1 and labels `[N]`.

A set file may come from anywhere, and code that it names would run on the robot: what the user names, too, is called
(`trusted_callable.CALLABLES`).
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import numpy as np

from deadline_perception.extras.external_models.exported.head import Head, Objects
from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.trusted_callable import CALLABLES, may_call


def own_head(words: str, input_size: tuple[int, int]) -> Head:
    """The head that a function reads.

    Raises:
        ModelError: it is not trusted, or there is no such function.
    """
    module_name, _, name = words.partition(':')
    parts = [*module_name.split('.'), name]
    if not all(part.isidentifier() for part in parts):
        raise ModelError(f'decode is {words[:100]!r}, expected package.module:function')
    if not may_call(words):
        raise ModelError(
            f'decode is {words[:100]!r}, which a file alone does not start; if you trust it, name it '
            f'yourself: {CALLABLES}={words[:100]}'
        )
    try:
        function = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise ModelError(f'decode is {words[:100]!r}, which cannot be imported: {error}') from error
    if not callable(function):
        raise ModelError(f'decode is {words[:100]!r}, which is no function')

    def decode(values: Sequence[np.ndarray]) -> Objects:
        given = function(list(values), input_size)
        if not isinstance(given, tuple) or len(given) != 3:
            raise ModelError(
                f'{words} returned {type(given).__name__}, expected boxes, scores and labels'
            )
        boxes, scores, labels = (np.asarray(part) for part in given)
        if boxes.shape != (len(scores), 4) or scores.ndim != 1 or labels.shape != scores.shape:
            raise ModelError(
                f'{words} returned boxes {boxes.shape}, scores {scores.shape} and labels {labels.shape}, '
                f'expected [N, 4], [N] and [N]'
            )
        return Objects(boxes.astype(np.float32), scores.astype(np.float32), labels.astype(np.int64))

    return Head(words, None, decode)
