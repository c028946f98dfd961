"""How old an image is when it arrives, and whether its stamp can be believed."""
from __future__ import annotations

import math
from dataclasses import dataclass

_OLDEST_MS = 10_000.0  # an older image is not late but wrongly stamped (a recording played without its clock)
# A stamp so far ahead of the clock counts as age 0. A simulated clock comes by messages, which may wait as images do.
_FUTURE_MS, _SIMULATED_FUTURE_MS = 20.0, 1000.0


@dataclass(frozen=True)
class StampReading:
    """The age of one image.

    Attributes:
        age_ms: stamp to arrival, >= 0; NaN when the stamp cannot be believed.
        reason: why it cannot be believed, empty otherwise.
        stamp_ns: the stamp itself, whether believed or not; 0 for none.
    """

    age_ms: float
    reason: str
    stamp_ns: int = 0

    @property
    def known_age_ms(self) -> float:
        """The age, or 0 when it is unknown: the deadline then counts from the arrival."""
        return 0.0 if math.isnan(self.age_ms) else self.age_ms


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
        last, self._last_stamp_ns = self._last_stamp_ns, stamp_ns
        age_ms = (now_ns - stamp_ns) / 1e6
        if stamp_ns <= 0:
            return StampReading(math.nan, 'image stamp is zero, expected the time of capture')
        if last is not None and stamp_ns < last:
            return StampReading(math.nan, f'image stamp went back by {(last - stamp_ns) / 1e6:.0f} ms', stamp_ns)
        if age_ms < -self._future_ms:
            return StampReading(math.nan, f'image stamp lies {-age_ms:.0f} ms in the future, expected at most '
                                          f'{self._future_ms:.0f} ms; do camera and node share one clock?',
                                stamp_ns)
        if age_ms > _OLDEST_MS:
            return StampReading(math.nan, f'image is {age_ms / 1000:.0f} s old, expected at most '
                                          f'{_OLDEST_MS / 1000:.0f} s; a recording needs use_sim_time', stamp_ns)
        return StampReading(max(0.0, age_ms), '', stamp_ns)
