"""What comes of a topic of images: how long none has, how many were lost, how old one is, and which are to be answered.
Free of ROS.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from deadline_perception.core.stopwatch import now_ms
from deadline_perception.runtime.job import StampReading

TOLD_MS = 5000.0  # that a diagnostic tells of what has passed
IMAGE_TIMEOUT_S = 2.0  # without an image for so long, the diagnostics warn
STOPPED_FACTOR = (
    5.0  # a camera that was heard and is silent for so many timeouts has stopped, which is an error
)
# Fast DDS shares 512 KiB by default, less than one raw image of 640 x 380, and best effort does not send it again.
MORE_ROOM = (
    'let the camera driver publish reliably, or start it with FASTRTPS_DEFAULT_PROFILES_FILE (and '
    'FASTDDS_DEFAULT_PROFILES_FILE) naming config/fastdds.xml of this package, which makes room for images'
)
_OLDEST_MS = 10_000.0  # an older image is not late but wrongly stamped (a recording played without its clock)
# A stamp so far ahead of the clock counts as age 0. A simulated clock comes by messages, which may wait as images do.
_FUTURE_MS = 20.0
_SIMULATED_FUTURE_MS = 1000.0
_EARLY = 0.1  # of the period of a rate limit: cameras are not that punctual


class ImageFlow:
    """What a topic of images has brought since its node was activated.

    Args:
        topic: resolved.
        clock_ms: monotonic clock.

    Attributes:
        lost: images that the middleware has lost.
    """

    def __init__(self, topic: str, clock_ms: Callable[[], float] = now_ms) -> None:
        self.topic = topic
        self._clock_ms = clock_ms
        self.lost = 0
        self._lost_ms = -math.inf
        self._came = False
        self._since_ms = clock_ms()

    def come(self) -> None:
        """Takes note of an image."""
        self._came = True
        self._since_ms = self._clock_ms()

    def await_next(self) -> None:
        """Takes note that an image is wanted from now on: until now, none could come."""
        self._since_ms = max(self._since_ms, self._clock_ms())

    def lose(self, count: int) -> None:
        """Takes note of images that the middleware has lost."""
        if count > 0:
            self.lost += count
            self._lost_ms = self._clock_ms()

    @property
    def silent_s(self) -> float:
        """Time since the last image, or since one is wanted."""
        return (self._clock_ms() - self._since_ms) / 1000.0

    @property
    def fault(self) -> str:
        """That a camera has stopped, for a person; empty otherwise. One that was never heard is no fault: it may start
        later."""
        return (
            self._silence if self._came and self.silent_s > STOPPED_FACTOR * IMAGE_TIMEOUT_S else ''
        )

    @property
    def concern(self) -> str:
        """That none has come for a while, for a person; empty otherwise."""
        return self._silence if self.silent_s > IMAGE_TIMEOUT_S else ''

    @property
    def loss(self) -> str:
        """What was lost, for a person, for some seconds after; empty otherwise."""
        if self._clock_ms() - self._lost_ms > TOLD_MS:
            return ''
        return f'{self.lost} images of {self.topic} lost by the middleware: {MORE_ROOM}'

    @property
    def _silence(self) -> str:
        return f'no image {"" if self._came else "yet "}on {self.topic} for {self.silent_s:.1f} s'


class ImageAge:
    """Reads image stamps against the node's clock; remembers the last stamp to notice a step backwards.

    Args:
        simulated: the clock is.
    """

    def __init__(self, simulated: bool = False) -> None:
        self._future_ms = _SIMULATED_FUTURE_MS if simulated else _FUTURE_MS
        self._last_stamp_ns: int | None = None

    def read(self, stamp_ns: int, now_ns: int) -> StampReading:
        """Age of an image that arrives now.

        Args:
            stamp_ns: stamp of the image, node clock.
            now_ns: node clock at its arrival; under simulated time it may jump.
        """
        last = self._last_stamp_ns
        self._last_stamp_ns = stamp_ns
        age_ms = (now_ns - stamp_ns) / 1e6
        problem = ''
        if stamp_ns <= 0:
            problem = 'image stamp is zero, expected the time of capture'
        elif last is not None and stamp_ns < last:
            problem = f'image stamp went back by {(last - stamp_ns) / 1e6:.0f} ms'
        elif age_ms < -self._future_ms:
            problem = (
                f'image stamp lies {-age_ms:.0f} ms in the future, expected at most '
                f'{self._future_ms:.0f} ms; do camera and node share one clock?'
            )
        elif age_ms > _OLDEST_MS:
            problem = (
                f'image is {age_ms / 1000:.0f} s old, expected at most '
                f'{_OLDEST_MS / 1000:.0f} s; a recording needs use_sim_time'
            )
        return StampReading(math.nan if problem else max(0.0, age_ms), problem, max(0, stamp_ns))


class RateLimit:
    """Takes images on a grid of its period, at most one for each period in the long run."""

    def __init__(self) -> None:
        self.left_out = 0
        self._due_ms = self._last_ms = float('-inf')

    def takes(self, now_ms: float, most_hz: float) -> bool:
        """Whether an image is to be answered; counts it otherwise.

        Args:
            now_ms: when it came; a clock that was set back begins a new grid.
            most_hz: images a second, 0 for all.
        """
        if now_ms < self._last_ms:
            self._due_ms = float('-inf')
        self._last_ms = now_ms
        if most_hz <= 0.0:
            return True
        period_ms = 1000.0 / most_hz
        self._due_ms = min(
            self._due_ms, now_ms + (1.0 + _EARLY) * period_ms
        )  # the rate may have been raised
        if now_ms < self._due_ms - _EARLY * period_ms:
            self.left_out += 1
            return False
        self._due_ms = (self._due_ms if now_ms - self._due_ms < period_ms else now_ms) + period_ms
        return True
