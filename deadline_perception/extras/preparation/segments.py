"""Prepares the segments of a network for `CompiledSegments`: those whose models are at hand by `ready_segments.py`, the
others by `made_segments.py`.

Which form a segment takes is decided here, on the device that will run it, from images. Needs torch for what has to be
made alone.
"""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable, Collection, Sequence

import numpy as np

from deadline_perception.engines.segment_run import Network
from deadline_perception.extras.preparation.ready_segments import prepare_ready
from deadline_perception.extras.preparation.segment_choice import SegmentChoice
from deadline_perception.extras.preparation.segment_models import SegmentModels
from deadline_perception.extras.preparation.store_writer import StoreWriter

# Ranges of a segment's values come from the first, its error from the others.
CALIBRATION_IMAGES, CHECK_IMAGES = 12, 4
_LEAST_IMAGES = 8  # altogether


def check_images(images: Sequence[np.ndarray]) -> None:
    """Makes sure that there are images enough to prepare segments with.

    Raises:
        ValueError: there are not.
    """
    if len(images) < _LEAST_IMAGES:
        raise ValueError(
            f'{len(images)} images to prepare segments with, expected at least {_LEAST_IMAGES}; '
            f'an eager engine needs none'
        )


def prepare(
    network: Network,
    images: Sequence[np.ndarray],
    store: StoreWriter,
    threads: int,
    *,
    keys: Collection[str] | None = None,
    models: SegmentModels | None = None,
    progress: Callable[[str], None] | None = None,
) -> SegmentModels:
    """Completes a store, segment by segment; may be interrupted and called again. Blocks for a fraction of a second per
    segment whose model is at hand, for seconds otherwise.

    Args:
        network: on the CPU; see `engines/segment_run.py`. Its engine is another one meanwhile. Where its `quantises` is
            False, 8 bit is not tried.
        images: uint8 `[height, width, 3]`, varied, as those that will be seen. Sixteen are used, at least 8 are needed.
        store: of this network.
        threads: that one segment is distributed over.
        keys: of the segments that it is complete with; None for all of the network.
        models: of segments, as they were converted and quantised elsewhere; None where there are none.
        progress: called with the key of each segment that is done.

    Returns:
        the models of the segments that were converted or quantised here.

    Raises:
        ValueError: too few images.
        StoreError: OpenVINO cannot be loaded.
        ModuleNotFoundError: a segment has to be made, and torch or the quantiser is not installed.
    """
    check_images(images)
    most = min(len(images), CALIBRATION_IMAGES + CHECK_IMAGES)
    images = [images[index * len(images) // most] for index in range(most)]
    random.Random(0).shuffle(images)  # those of the check come from all of the sequence
    models, done = models or SegmentModels(''), progress or (lambda key: None)
    asked = set(network.path_space.carriers() if keys is None else keys)
    left = asked - store.segments.keys()
    choice = SegmentChoice(store, threads)
    made = SegmentModels(models.weights_hash)
    can_make = importlib.util.find_spec('torch') is not None
    if models.forms:
        for key in prepare_ready(
            network, images, left, asked, models, choice, is_last=not can_make
        ):
            left = left - {key}
            done(key)
    if left:
        from deadline_perception.extras.preparation.made_segments import make_segments

        make_segments(network, images, left, choice, made, done)
    store.finish(asked)
    return made
