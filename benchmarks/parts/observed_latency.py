"""Published latencies of frames beside what a process outside stamped: joined by the images' stamps, and compared.

The node publishes the time from the stamp of the image to the return of the call that published its detections. Outside,
the same message has two times: when the observer's middleware got it (`received`), and when the observer's callback began
(`called`).
"""

from __future__ import annotations

import numpy as np

from parts.harness import quantiles
from parts.replay_scores import after_late, longest_run, share

AGREEMENT_MS = 1.0
# What an observer noted of a message of detections: stamp of the image, and times of the system clock.
HEARD = np.dtype([('stamp_ns', 'i8'), ('called_ns', 'i8'), ('received_ns', 'i8')])
# Of a latency message: published latency, NaN where the age of the image is unknown; a bound was to fit; a result of this
# image was published in time.
HEARD_LATENCY = np.dtype(
    [('stamp_ns', 'i8'), ('total_ms', 'f8'), ('promised', '?'), ('in_time', '?')]
)


def join(detections: np.ndarray, latencies: np.ndarray) -> dict[str, np.ndarray]:
    """Joins `HEARD` and `HEARD_LATENCY` by the stamp of the image, in the order of the stamps, where the age of the image
    is known; of messages with one stamp the first counts. Published latency, and observed less published by the moment
    that is observed, ms."""
    stamps_ns, found, told = np.intersect1d(
        detections['stamp_ns'], latencies['stamp_ns'], return_indices=True
    )
    published_ms = latencies['total_ms'][told]
    is_known = np.isfinite(published_ms)
    moments = {'callback': 'called_ns', 'received': 'received_ns'}
    late_ms = {
        moment: (detections[name][found] - stamps_ns) / 1e6 - published_ms
        for moment, name in moments.items()
    }
    return {
        name: values[is_known] for name, values in {'published': published_ms, **late_ms}.items()
    }


def within(messages: np.ndarray, begin_ns: int, end_ns: int) -> np.ndarray:
    """Messages about images that were stamped in [begin_ns, end_ns)."""
    stamps_ns = messages['stamp_ns']
    return messages[(begin_ns <= stamps_ns) & (stamps_ns < end_ns)]


def promises(latencies: np.ndarray) -> dict[str, float | int | None]:
    """What became of the frames that were promised, in their order, as the detector says."""
    promised = latencies['promised']
    late = promised & ~latencies['in_time']
    return {
        'promised': int(promised.sum()),
        'late_of_promised': share(late, promised),
        'late_after_late': after_late(late),
        'longest_run_late': longest_run(late),
    }


def spread(differences_ms: np.ndarray) -> dict[str, float | None]:
    """Signed median, and of the distances the 99th percentile and the longest."""
    distances = quantiles(np.abs(differences_ms), 'p99', 'max')
    return {
        **quantiles(differences_ms, 'p50'),
        **{f'{name}_distance': value for name, value in distances.items()},
    }


def differences(frames: dict[str, np.ndarray]) -> dict[str, dict[str, float | None]]:
    """Of joined frames, by the moment that is observed."""
    return {moment: spread(frames[moment]) for moment in ('callback', 'received')}
