"""The promise on late frames and on bounds exceeded, proved of the code's own update rule by an SMT solver.

The state after T frames is what `BoundCalibrator._count` keeps: frames and what they counted. q is computed from it by
`log_factor_after`, what a frame counts by `counted_weight`: the functions that run in the product, here of symbolic
real numbers. An invariant that holds at first, and after every frame if it held before, holds for every sequence.
"""

from dataclasses import dataclass
from itertools import product

import pytest
import z3

from deadline_perception.timing.calibration import IN_TIME_WEIGHT, counted_weight, log_factor_after


@dataclass(frozen=True)
class Frame:
    """One kind of frame that an adversary may choose."""

    exceeds: bool
    is_late: bool
    in_time: bool

    @property
    def weight(self) -> float:
        return counted_weight(self.exceeds, self.is_late, self.in_time)


# In time and late exclude each other; nobody knows of a frame without a deadline whether it is either.
FRAMES = [
    Frame(*flags) for flags in product((False, True), repeat=3) if not (flags[1] and flags[2])
]


class Rule:
    """The rule's symbols: target and step, the interval [low, low + width] of all scores with the first q in it, what
    was counted, and the score of the next frame."""

    def __init__(self) -> None:
        names = 'alpha eta low width initial frames weight late exceeded score'
        for name in names.split():
            setattr(self, name, z3.Real(name))
        self.high = self.low + self.width

    def q(self, frames, weight):
        """The code's."""
        return log_factor_after(self.initial, self.eta, self.alpha, frames, weight)

    @property
    def parameters(self) -> list:
        return [
            self.alpha > 0,
            self.alpha < IN_TIME_WEIGHT,
            self.eta > 0,
            self.width > 0,
            self.low <= self.initial,
            self.initial <= self.high,
        ]

    def may_come(self, frame: Frame) -> list:
        """What is true where such a frame comes: of the score, and that none is late with q above the interval."""
        q = self.q(self.frames, self.weight)
        facts = [self.low <= self.score, self.score <= self.high]
        facts.append(self.score > q if frame.exceeds else self.score <= q)
        if frame.is_late:
            facts.append(q <= self.high)
        return facts

    def in_interval(self, frames, weight):
        """The invariant on q: never more than a step outside the interval."""
        q = self.q(frames, weight)
        return z3.And(self.low - self.eta <= q, q <= self.high + self.eta)

    def counts(self, frames, weight, late, exceeded):
        """The invariant on the counts: late frames count whole at least, bounds exceeded half at least."""
        return z3.And(frames >= 0, late <= weight, IN_TIME_WEIGHT * exceeded <= weight)


def is_proved(facts: list, claim) -> bool:
    solver = z3.Solver()
    solver.set('timeout', 60_000)
    solver.add(*facts, z3.Not(claim))
    answer = solver.check()
    assert answer != z3.unknown, solver.reason_unknown()
    return answer == z3.unsat


def test_q_starts_within_the_interval():
    rule = Rule()
    assert is_proved(rule.parameters, rule.in_interval(0, 0))


@pytest.mark.parametrize('frame', FRAMES, ids=str)
def test_no_frame_takes_q_out_of_the_interval(frame):
    rule = Rule()
    facts = rule.parameters + rule.may_come(frame)
    facts.append(rule.in_interval(rule.frames, rule.weight))
    assert is_proved(facts, rule.in_interval(rule.frames + 1, rule.weight + frame.weight))


@pytest.mark.parametrize('frame', FRAMES, ids=str)
def test_every_frame_keeps_late_and_exceeded_within_what_was_counted(frame):
    rule = Rule()
    before = rule.counts(rule.frames, rule.weight, rule.late, rule.exceeded)
    # A frame that is late without exceeding its bound counts as late, and not as exceeding it.
    after = rule.counts(
        rule.frames + 1,
        rule.weight + frame.weight,
        rule.late + int(frame.is_late),
        rule.exceeded + int(frame.exceeds),
    )
    assert is_proved([before], after)


def limit(rule: Rule):
    """`alpha T + (B + eta) / eta`, times eta."""
    return rule.eta * rule.alpha * rule.frames + rule.width + rule.eta


def invariants(rule: Rule) -> list:
    return rule.parameters + [
        rule.in_interval(rule.frames, rule.weight),
        rule.counts(rule.frames, rule.weight, rule.late, rule.exceeded),
    ]


def test_so_late_frames_are_at_most_their_share_and_a_constant_and_bounds_exceeded_twice_that():
    rule = Rule()
    assert is_proved(invariants(rule), rule.eta * rule.late <= limit(rule))
    assert is_proved(invariants(rule), rule.eta * rule.exceeded <= 2 * limit(rule))
