"""Published latencies of frames beside what a process outside stamped: joined by the images' stamps, and compared.

The node publishes the time from the stamp of the image to the return of the call that published its detections. Outside,
the same message has two times: when the observer's middleware got it (`received`), and when the observer's callback began
(`called`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from parts.harness import quantiles
from parts.replay_scores import after_late, longest_run, share

AGREEMENT_MS = 1.0


@dataclass(frozen=True)
class Heard:
    """One message as an observer got it; all times are of the system clock, ns.

    Attributes:
        stamp_ns: of the image that it is about.
        called_ns: the callback began.
        received_ns: the observer's middleware got it.
    """

    stamp_ns: int
    called_ns: int
    received_ns: int


@dataclass(frozen=True)
class HeardLatency(Heard):
    """A latency message.

    Attributes:
        total_ms: published latency; NaN where the age of the image is unknown.
        promised: a bound was to fit.
        in_time: a result of this image was published in time.
    """

    total_ms: float
    promised: bool
    in_time: bool


@dataclass(frozen=True)
class ObservedFrame:
    """One frame whose detections and latency were both heard: from the stamp of its image on, ms.

    Attributes:
        published_ms: to the return of the publishing call, as the node says.
        called_ms, received_ms: to the observer's callback, and to the receipt by its middleware.
    """

    published_ms: float
    called_ms: float
    received_ms: float


def join(detections: Iterable[Heard], latencies: Iterable[HeardLatency]) -> list[ObservedFrame]:
    """Joins both topics by the stamp of the image, in the order of the stamps, where the age of the image is known; of
    messages with one stamp the first counts."""
    found, told = {}, {}
    for messages, by_stamp in ((detections, found), (latencies, told)):
        for message in messages:
            by_stamp.setdefault(message.stamp_ns, message)
    return [
        ObservedFrame(
            told[stamp].total_ms,
            (found[stamp].called_ns - stamp) / 1e6,
            (found[stamp].received_ns - stamp) / 1e6,
        )
        for stamp in sorted(found.keys() & told.keys())
        if math.isfinite(told[stamp].total_ms)
    ]


def within(messages: Iterable[Heard], begin_ns: int, end_ns: int) -> list:
    """Messages about images that were stamped in [begin_ns, end_ns)."""
    return [message for message in messages if begin_ns <= message.stamp_ns < end_ns]


def promises(latencies: Sequence[HeardLatency]) -> dict[str, float | int | None]:
    """What became of the frames that were promised, in their order, as the detector says."""
    late = np.array([said.promised and not said.in_time for said in latencies], bool)
    promised = np.array([said.promised for said in latencies], bool)
    return {
        'promised': int(promised.sum()),
        'late_of_promised': share(late, promised),
        'late_after_late': after_late(late),
        'longest_run_late': longest_run(late),
    }


def spread(differences_ms: Sequence[float]) -> dict[str, float | None]:
    """Signed median, and of the distances the 99th percentile and the longest."""
    distances = quantiles(np.abs(differences_ms), 'p99', 'max')
    return {
        **quantiles(differences_ms, 'p50'),
        **{f'{name}_distance': value for name, value in distances.items()},
    }


def differences(frames: Sequence[ObservedFrame]) -> dict[str, dict[str, float | None]]:
    """Observed less published latency of one observer, ms, by the moment that is observed."""
    return {
        'callback': spread([frame.called_ms - frame.published_ms for frame in frames]),
        'received': spread([frame.received_ms - frame.published_ms for frame in frames]),
    }
