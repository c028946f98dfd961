"""Streaming AP (sAP): what is known at the time of each image, replayed with the latencies that were measured.

Source: Li, Wang and Ramanan 2020, "Towards streaming perception": the newest publication counts, whatever it is; what
is published of the image itself comes too late for it. An image that comes while one before is at work waits, and is
left out when a newer one comes meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from deadline_perception.core.detections import Detections
from deadline_perception.runtime.tracks import Tracks

Publication = tuple[float, float, Detections]


def published(
    outputs: Sequence[tuple[float, Detections | None]], stamps_ms: Sequence[float]
) -> list[Publication]:
    """When what was published, of which moment, ms.

    Args:
        outputs: of each image, how long it takes, ms, and what is then published; None for nothing.
        stamps_ms: times of capture, ascending.
    """
    found, free_ms = [], -math.inf
    for index, ((took_ms, detections), stamp_ms) in enumerate(zip(outputs, stamps_ms, strict=True)):
        begun_ms = max(stamp_ms, free_ms)
        if index + 1 < len(stamps_ms) and stamps_ms[index + 1] <= begun_ms:
            continue
        free_ms = begun_ms + took_ms
        if detections is not None:
            found.append((free_ms, stamp_ms, detections))
    return found


def known_at(
    publications: Sequence[Publication], stamps_ms: Sequence[float], tracks: Tracks | None = None
) -> list[Detections]:
    """The newest publication at each moment, moved to it along tracks where there are any."""
    outputs, last, at = [], Detections.none(), 0
    for stamp_ms in stamps_ms:
        while at < len(publications) and publications[at][0] <= stamp_ms:
            _, of_ms, last = publications[at]
            if tracks is not None:
                tracks.update(last, of_ms / 1000.0)
            at += 1
        outputs.append(last if tracks is None or not at else tracks.predict(stamp_ms / 1000.0))
    return outputs
