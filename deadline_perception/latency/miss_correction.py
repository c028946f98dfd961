"""Factor on bounds that holds the share of late frames."""
from __future__ import annotations

import math


class MissCorrection:
    """Factor >= 1 on bounds that holds the share of late frames, whatever has made them late.

    A frame rests on several bounds: that of its plan, those of what is left at each of its decisions, and the reserve.
    So more of them may be late than exceed any one. Here late frames themselves are counted. After each frame that was
    to be in time, the log m of the factor becomes `max(0, m + eta * (late - alpha))`, at most log(2). Until it reaches
    that, no step adds less than `eta * (late - alpha)`, so of T frames at most `alpha * T + m_T / eta` were late, for
    every sequence: T / 100 and 14 more with the defaults.

    Args:
        alpha: target share of late frames, in (0, 1).
        eta: step, > 0.

    Attributes:
        frames: observed.
        late: of these.
    """

    _MOST = math.log(2.0)  # what is late for other reasons than the network's time does not make every path too long

    def __init__(self, alpha: float, eta: float) -> None:
        self._alpha, self._eta, self._log = alpha, eta, 0.0
        self.frames = self.late = 0

    @property
    def factor(self) -> float:
        """What bounds are multiplied with."""
        return math.exp(self._log)

    def observe(self, late: bool) -> None:
        """Takes in a frame that was to be in time, or was so against expectation."""
        self.frames += 1
        self.late += late
        self._log = min(max(self._log + self._eta * (late - self._alpha), 0.0), self._MOST)
