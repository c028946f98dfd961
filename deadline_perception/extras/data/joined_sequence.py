"""Several annotated sequences as one, to be scored together."""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import replace

import numpy as np

from deadline_perception.extras.data.class_names import relabelled
from deadline_perception.extras.data.records import Frame, GroundTruth, Sequence

_GAP_NS = 10**9
_EVERYWHERE_PX = (0.0, 0.0, 1e5, 1e5)


def joined(sequences: Many[Sequence], wanted: Many[str]) -> Sequence:
    """One sequence after the other, with the classes of all.

    A class that a sequence does not name is not known to be absent from its images. Each of them gets a crowd region of
    that class that covers it, on which detections are neither hits nor misses.

    Args:
        sequences: at least one.
        wanted: the classes that are scored; only they get such regions.
    """
    if len(sequences) == 1:
        return sequences[0]
    names = tuple(dict.fromkeys(name for sequence in sequences for name in sequence.class_names))
    frames: list[Frame] = []
    for number, sequence in enumerate(sequences):
        unnamed = [
            label
            for label, name in enumerate(names)
            if name in wanted and name not in sequence.class_names
        ]
        begin_ns = frames[-1].stamp_ns + _GAP_NS - sequence.frames[0].stamp_ns if frames else 0
        for frame in sequence.frames:
            known = frame.ground_truth
            if known is not None:
                known = _with_unknown(relabelled(known, sequence.class_names, names), unnamed)
            frames.append(
                replace(
                    frame,
                    name=f'{number}/{frame.name}',
                    stamp_ns=frame.stamp_ns + begin_ns,
                    ground_truth=known,
                )
            )
    return Sequence(' + '.join(sequence.name for sequence in sequences), names, tuple(frames))


def _with_unknown(known: GroundTruth, labels: Many[int]) -> GroundTruth:
    return GroundTruth(
        np.concatenate(
            (known.boxes_xyxy_px, np.tile(np.float32(_EVERYWHERE_PX), (len(labels), 1)))
        ),
        np.concatenate((known.labels, np.int64(labels))),
        np.concatenate((known.crowd, np.ones(len(labels), bool))),
    )
