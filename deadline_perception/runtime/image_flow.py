"""Whether images come: how long none has, and how many the middleware has lost lately. Free of ROS."""
from __future__ import annotations

import math
from collections.abc import Callable

from deadline_perception.latency.stopwatch import now_ms
from deadline_perception.runtime.deadline import TOLD_MS

IMAGE_TIMEOUT_S = 2.0  # without an image for so long, the diagnostics warn
STOPPED_FACTOR = 5.0  # a camera that is silent for so many timeouts has stopped
# Fast DDS shares 512 KiB by default, less than one raw image of 640 x 380, and best effort does not send it again.
MORE_ROOM = ('let the camera driver publish reliably, or start it with FASTRTPS_DEFAULT_PROFILES_FILE (and '
             'FASTDDS_DEFAULT_PROFILES_FILE) naming config/fastdds.xml of this package, which makes room for images')


class ImageFlow:
    """What a topic of images has brought since its node was activated.

    Args:
        topic: resolved.
        timeout_s: without an image for so long, > 0, a warning is due; `STOPPED_FACTOR` times as long, an error.
        clock_ms: monotonic clock.

    Attributes:
        lost: images that the middleware has lost.

    Raises:
        ValueError: the timeout is not above 0.
    """

    def __init__(self, topic: str, timeout_s: float = IMAGE_TIMEOUT_S, clock_ms: Callable[[], float] = now_ms) -> None:
        if not 0.0 < timeout_s < math.inf:
            raise ValueError(f'image_timeout_s is {timeout_s} s, expected a finite time above 0 s')
        self.topic, self._timeout_s, self._clock_ms = topic, timeout_s, clock_ms
        self.lost, self._lost_ms = 0, -math.inf
        self._came = False
        self._since_ms = clock_ms()

    def come(self) -> None:
        """Takes note of an image."""
        self._came, self._since_ms = True, self._clock_ms()

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
        return self._silence if self._came and self.silent_s > STOPPED_FACTOR * self._timeout_s else ''

    @property
    def concern(self) -> str:
        """That none has come for a while, for a person; empty otherwise."""
        return self._silence if self.silent_s > self._timeout_s else ''

    @property
    def loss(self) -> str:
        """What was lost, for a person, for some seconds after; empty otherwise."""
        if self._clock_ms() - self._lost_ms > TOLD_MS:
            return ''
        return f'{self.lost} images of {self.topic} lost by the middleware: {MORE_ROOM}'

    @property
    def _silence(self) -> str:
        return f'no image {"" if self._came else "yet "}on {self.topic} for {self.silent_s:.1f} s'
