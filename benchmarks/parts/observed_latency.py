"""Published latencies of frames beside what a process outside stamped: joined by the images' stamps, and compared.

The node publishes the time from the stamp of the image to the return of the call that published its detections. Outside,
the same message has three times: when the node's middleware took it (`written`), when the observer's middleware got it
(`received`), and when the observer's callback began (`called`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from parts.harness import quantiles
from parts.replay_scores import after_late, longest_run, share

AGREEMENT_MS = 1.0
PARTS = ('node', 'middleware', 'observer')


@dataclass(frozen=True)
class Heard:
    """One message as an observer got it; all times are of the system clock, ns.

    Attributes:
        stamp_ns: of the image that it is about.
        called_ns: the callback began.
        written_ns: the publisher's middleware took it.
        received_ns: the observer's middleware got it.
    """

    stamp_ns: int
    called_ns: int
    written_ns: int
    received_ns: int


@dataclass(frozen=True)
class HeardLatency(Heard):
    """A latency message.

    Attributes:
        total_ms: published latency; NaN where the age of the image is unknown.
        outcome: of `FrameLatency`.
        promised: a bound was to fit.
        in_time: a result of this image was published in time.
    """

    total_ms: float
    outcome: int
    promised: bool
    in_time: bool


@dataclass(frozen=True)
class ObservedFrame:
    """One frame whose detections and latency were both heard. Differences are observed less published, ms.

    Attributes:
        detections, latency: its messages.
    """

    detections: Heard
    latency: HeardLatency

    @property
    def called_ms(self) -> float:
        """Stamp of the image to the observer's callback."""
        return (self.detections.called_ns - self.detections.stamp_ns) / 1e6

    @property
    def difference_ms(self) -> float:
        """Of the callback: the sum of the parts."""
        return self.called_ms - self.latency.total_ms

    @property
    def received_difference_ms(self) -> float:
        """Of the receipt by the observer's middleware."""
        return self.difference_ms - self.observer_ms

    @property
    def node_ms(self) -> float:
        """Published moment to the moment when the middleware took the message: at most 0, what the call took after that."""
        written_ms = (self.detections.written_ns - self.detections.stamp_ns) / 1e6
        return written_ms - self.latency.total_ms

    @property
    def middleware_ms(self) -> float:
        """From the node's middleware to the observer's."""
        return (self.detections.received_ns - self.detections.written_ns) / 1e6

    @property
    def observer_ms(self) -> float:
        """From the observer's middleware to its callback."""
        return (self.detections.called_ns - self.detections.received_ns) / 1e6

    @property
    def follows_ms(self) -> float:
        """Callback of the detections to that of the latency message."""
        return (self.latency.called_ns - self.detections.called_ns) / 1e6

    @property
    def cause(self) -> str:
        """The one of PARTS that the difference of the callback mostly comes of.

        What interrupts the publishing call delays message or return: only the sum of `node_ms` and `middleware_ms` is a
        difference, and its sign says which of the two it was.
        """
        received_ms = self.received_difference_ms
        if abs(self.observer_ms) >= abs(received_ms):
            return 'observer'
        return 'middleware' if received_ms > 0.0 else 'node'


@dataclass(frozen=True)
class Joined:
    """What an observer heard of some images.

    Attributes:
        frames: those of which it heard both messages, with a known age; in the order of their stamps.
        without_latency: images of which it heard detections alone.
        without_detections: those of which it heard a latency alone.
        unknown_age: those whose published latency is not a number.
    """

    frames: tuple[ObservedFrame, ...]
    without_latency: int
    without_detections: int
    unknown_age: int


def join(detections: Iterable[Heard], latencies: Iterable[HeardLatency]) -> Joined:
    """Joins both topics by the stamp of the image; of messages with one stamp the first counts."""
    found, told = {}, {}
    for messages, by_stamp in ((detections, found), (latencies, told)):
        for message in messages:
            by_stamp.setdefault(message.stamp_ns, message)
    both = sorted(found.keys() & told.keys())
    frames = [
        ObservedFrame(found[stamp], told[stamp])
        for stamp in both
        if math.isfinite(told[stamp].total_ms)
    ]
    return Joined(
        tuple(frames),
        len(found.keys() - told.keys()),
        len(told.keys() - found.keys()),
        len(both) - len(frames),
    )


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


def spread(differences_ms: Collection[float]) -> dict[str, float | None]:
    """Signed median, and of the distances their 99th percentile, the longest, and the share that does not agree."""
    distances_ms = np.abs(np.asarray(list(differences_ms), float))
    return {
        **quantiles(differences_ms, 'p50'),
        **{
            f'{name}_distance': value
            for name, value in quantiles(distances_ms, 'p99', 'max').items()
        },
        'share_beyond': round(float(np.mean(distances_ms > AGREEMENT_MS)), 5)
        if len(distances_ms)
        else None,
    }


def figures(frames: Sequence[ObservedFrame]) -> dict:
    """What is said of one observer and some frames, ms."""

    def of(value: Callable[[ObservedFrame], float], *names: str) -> dict[str, float | None]:
        return quantiles(map(value, frames), *names)

    beyond = [frame for frame in frames if abs(frame.difference_ms) > AGREEMENT_MS]
    return {
        'published': of(lambda frame: frame.latency.total_ms, 'p50', 'p99', 'max'),
        'observed': of(lambda frame: frame.called_ms, 'p50', 'p99', 'max'),
        'difference': spread([frame.difference_ms for frame in frames]),
        'difference_as_received': spread([frame.received_difference_ms for frame in frames]),
        'parts': {
            part: of(lambda frame: getattr(frame, f'{part}_ms'), 'p1', 'p50', 'p99')  # noqa: B023
            for part in PARTS
        },
        'beyond_by_cause': dict(Counter(frame.cause for frame in beyond)),
        'latency_message_follows': of(lambda frame: frame.follows_ms, 'p50', 'p99'),
    }
