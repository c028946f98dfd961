"""What recent frames took over what was expected of them: a limit of executions, interruptions in ms, and chances.

Two kinds of lateness are distinguished. How long a network executes varies in proportion: its log ratios to the expected
time have a median and a deviation, from which a tolerance limit follows within some ten frames, whatever was expected
at first. An interruption, such as another real-time program's turn, takes the same ms of a short path as of a long
one: no factor says that, a quantile in ms does. They come in bursts, so that the frames right after one are looked at
apart. docs/promises.md says how both become a bound. Needs no torch.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Annotated

import numpy as np
from msgspec import Meta

from deadline_perception.core.decoding import decode

RATIOS = 400  # of the newest frames make the limit
INTERRUPTIONS = 2000  # frames that interruptions are looked for in: five of a hundred are twelve of 2,000 at 99 %
_MOST_FRAMES = 0.9  # of the ratios, above which the longest are stalls until there are enough
LEAST_RATIOS = 8  # before so many the start decides
MOST_START = math.log(3.0)  # of a bound over its forecast before frames have run
START_DEVIATIONS = 2.8  # above the median: 99.7 % of a normal distribution
MAD_TO_DEVIATION = 1.4826  # of a normal distribution
# Of the target; interruptions that are rarer are left to it. More than 1, as half of a bound's excesses cost no deadline.
_INTERRUPTED_SHARE = 1.2
BURST_FRAMES = 5  # for so many after an interruption another one is more probable
_FEW = 3  # interruptions that may be chance, however few frames were seen
_EXECUTION_SHARE = 0.5  # of the target is left to executions beyond their limit
_CONFIDENCE = 0.95
_CONFIDENT = NormalDist().inv_cdf(_CONFIDENCE)
_LEAST_DEVIATION = 0.01
# That the start weighs as much as; frames soon know better.
_PRIOR_FRAMES, _MOST_PRIOR_DEVIATION = 8.0, 0.1
_LONGEST_LOG = math.log(1.5)  # of a limit above what nine of ten ratios stay below
_EXTREME_LOG = 7.0  # a ratio beyond, of 1,100, is a fault of a clock or a forecast
_MOST_MS = 3.6e6  # of an interruption that is kept
_EVERY = 4  # frames, once some ten were seen
_LogRatio = Annotated[float, Meta(ge=-_EXTREME_LOG, le=_EXTREME_LOG)]
_ExcessMs = Annotated[float, Meta(ge=0.0, le=_MOST_MS)]


@dataclass(frozen=True)
class StartRatio:
    """What is known of the log ratios before a frame has run.

    Attributes:
        median: of `log(took / expected)`.
        deviation: of the same, robust, >= 0.

    Raises:
        ValueError: a value is not finite, or the deviation negative.
    """

    median: float = 0.0
    deviation: float = 0.0

    def __post_init__(self) -> None:
        if not math.isfinite(self.median) or not 0.0 <= self.deviation < math.inf:
            raise ValueError(
                f'log ratio has the median {self.median} and the deviation {self.deviation}, expected '
                f'finite values, and a deviation of at least 0'
            )

    @classmethod
    def of(cls, log_ratios: Sequence[float] | np.ndarray) -> StartRatio:
        """Median and deviation (1.48 times the median distance from it) of at least one log ratio.

        Raises:
            ValueError: there is none, or one is not finite.
        """
        if not len(log_ratios):
            raise ValueError('sample holds no log ratio, expected at least one')
        values = np.asarray(log_ratios, np.float64)
        median = float(np.median(values))
        return cls(median, MAD_TO_DEVIATION * float(np.median(np.abs(values - median))))

    @property
    def log_limit(self) -> float:
        """That few frames exceed; limited, since a handful of disturbed frames can have any deviation, and the eighth
        frame replaces it."""
        return min(self.median + START_DEVIATIONS * self.deviation, MOST_START)


@dataclass(frozen=True)
class _State:
    """What `RecentTimes.state` gives."""

    log_ratios: Annotated[list[_LogRatio], Meta(max_length=RATIOS)]
    excesses_ms: Annotated[list[_ExcessMs], Meta(max_length=INTERRUPTIONS)]


class RecentTimes:
    """The newest frames' times, or those of one part of frames.

    Args:
        alpha: target share of frames beyond the bound, in (0, 1).
        start: what holds until `LEAST_RATIOS` frames were seen, and weighs as much as so many afterwards; of a part of
            frames the times of whole ones.

    Attributes:
        start: as given.
        has_limit: frames enough were seen for a limit of their own; until then the two below are the start's as it
            was at first.
        deviation: of the log ratios.
        log_limit: tolerance limit of the log ratios: 1 - alpha / 2 of all lie below it with 95 % confidence, where they
            are distributed normally but for outliers; at most log(1.5) above what nine of ten stay below, since of a few
            stalls in a first second the deviation can be any, and at most the largest one once they are
            `largest_is_limit`.
        interruption_ms: the quantile of what frames took beyond that limit which a share of 1.2 alpha exceeds, in ms;
            0 while fewer frames exceed the limit. Of frames that came within `BURST_FRAMES` of an interruption where
            the next one does, else of the others.
        is_soon_after: it does.
    """

    def __init__(self, alpha: float, start: StartRatio | RecentTimes = StartRatio()) -> None:
        self._alpha = alpha
        self.start = start
        self._content = NormalDist().inv_cdf(1.0 - _EXECUTION_SHARE * alpha)
        self._largest_is_limit = largest_is_limit(alpha)
        self._ratios: deque[float] = deque()
        self._ordered: list[float] = []
        self._excesses: deque[tuple[float, bool]] = (
            deque()
        )  # in ms, and whether soon after another one
        # Of frames that came soon after an interruption and of others, of them those above 0, ascending.
        self._longest: tuple[list[float], ...] = ([], [])
        self._counts = [0, 0]
        self._calm_frames = BURST_FRAMES
        self._first: list[tuple[float, float]] = []
        self.has_limit = False
        self.log_limit: float = start.log_limit
        self.deviation: float = start.deviation
        self._since = 0
        self.interruption_ms = 0.0
        self.is_soon_after = False

    def share_within(self, log_ratio: float) -> float:
        """Share of the frames whose log ratio lies below a given one, interpolated; below all of them 0, and above all
        the chance that a next one does. Of as many as make a limit."""
        ratios = self._window
        if log_ratio < ratios[0]:
            return 0.0
        count = len(ratios)
        after = bisect_right(ratios, log_ratio)
        below = ratios[after - 1]
        share = (after - 0.5) / count
        if after == count or below == log_ratio:
            return share
        slope = ((after + 0.5) / count - share) / (ratios[after] - below)
        return slope * (log_ratio - below) + share

    @property
    def median(self) -> float:
        """Of the log ratios."""
        if not self.has_limit:
            return self.start.median
        return self._ordered[len(self._ordered) // 2]

    def state(self) -> dict[str, list[float]]:
        """All that was seen of the newest frames, as plain numbers."""
        return {
            'log_ratios': [round(ratio, 5) for ratio in self._ratios],
            'excesses_ms': [round(min(excess_ms, _MOST_MS), 3) for excess_ms, _ in self._excesses],
        }

    @classmethod
    def from_state(cls, alpha: float, start: StartRatio, state: object) -> RecentTimes:
        """Goes on where `state` was taken; with fewer than `LEAST_RATIOS` frames it begins anew.

        Raises:
            ValueError: it is none, or holds an impossible value.
        """
        recent = cls(alpha, start)
        seen = decode(state, _State, 'recent')
        if len(seen.log_ratios) >= LEAST_RATIOS:
            recent._ratios.extend(seen.log_ratios)
            recent._ordered = sorted(seen.log_ratios)
            recent._renew_limit()
            for excess_ms in seen.excesses_ms:
                recent._take_excess(excess_ms)
        return recent

    def observe(self, expected_ms: float, took_ms: float) -> None:
        """Takes in one frame; both times are positive and finite."""
        log_ratio = min(max(math.log(took_ms / expected_ms), -_EXTREME_LOG), _EXTREME_LOG)
        self._ratios.append(log_ratio)
        insort(self._ordered, log_ratio)
        if len(self._ratios) > RATIOS:
            del self._ordered[bisect_left(self._ordered, self._ratios.popleft())]
        self._first.append((expected_ms, took_ms))
        if not self.has_limit:
            if len(self._first) < LEAST_RATIOS:
                return
            self._renew_limit()
        else:
            self._since += 1
        limit = math.exp(self.log_limit)
        for expected_ms, took_ms in self._first:
            self._take_excess(max(0.0, took_ms - expected_ms * limit))
        self._first.clear()
        if self._since and (self._since >= _EVERY or len(self._ratios) < 4 * LEAST_RATIOS):
            self._since = 0
            self._renew_limit()

    def _take_excess(self, excess_ms: float) -> None:
        was_soon_after = self.is_soon_after
        self._excesses.append((excess_ms, was_soon_after))
        self._counts[was_soon_after] += 1
        if excess_ms > 0.0:
            insort(self._longest[was_soon_after], excess_ms)
        if len(self._excesses) > INTERRUPTIONS:
            oldest_ms, was_soon_after = self._excesses.popleft()
            self._counts[was_soon_after] -= 1
            if oldest_ms > 0.0:
                self._longest[was_soon_after].remove(oldest_ms)
        self._calm_frames = 0 if excess_ms > 0.0 else self._calm_frames + 1
        self.is_soon_after = self._calm_frames < BURST_FRAMES
        longest = self._longest[self.is_soon_after]
        rank = int(_INTERRUPTED_SHARE * self._alpha * self._counts[self.is_soon_after]) + _FEW
        self.interruption_ms = longest[-1 - rank] if rank < len(longest) else 0.0

    def _renew_limit(self) -> None:
        count = len(self._ordered)
        ordered = np.array(self._ordered)
        # The ordered log ratios when the limit was made: of a memoryview, a few items are read fastest.
        self._window = ordered.data
        median = (self._ordered[(count - 1) // 2] + self._ordered[count // 2]) / 2.0
        deviation = MAD_TO_DEVIATION * float(np.median(np.abs(ordered - median)))
        start = min(max(self.start.deviation, _LEAST_DEVIATION), _MOST_PRIOR_DEVIATION)
        weight = _PRIOR_FRAMES / (_PRIOR_FRAMES + count)
        self.deviation = math.sqrt((1.0 - weight) * deviation**2 + weight * start**2)
        factor = tolerance_factor(self._content, count)
        limit = median + factor * max(self.deviation, _LEAST_DEVIATION)
        most = self._ordered[int(_MOST_FRAMES * count) - 1] + _LONGEST_LOG
        self.log_limit = min(limit, self._ordered[-1] if count >= self._largest_is_limit else most)
        self.has_limit = True


def largest_is_limit(alpha: float) -> int:
    """Values of any distribution the largest of which 1 - alpha of all lie below with 95 % confidence: 299 for 1 %.

    Wilks 1941, Determination of sample sizes for setting tolerance limits, for one side.
    """
    return math.ceil(math.log(1.0 - _CONFIDENCE) / math.log1p(-alpha))


@cache
def tolerance_factor(content: float, count: int) -> float:
    """Deviations above the mean below which a share of a normal distribution lies with 95 % confidence.

    Natrella 1963, Experimental Statistics, section 2-3.3.1, unchanged.

    Args:
        content: the share, as a quantile of the standard normal distribution.
        count: of the values that mean and deviation are of, >= 3.
    """
    a = 1.0 - _CONFIDENT**2 / (2.0 * (count - 1.0))
    b = content**2 - _CONFIDENT**2 / count
    return (content + math.sqrt(max(content**2 - a * b, 0.0))) / a
