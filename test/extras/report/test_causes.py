"""Every late frame gets the cause that its own numbers show."""

import pytest

from deadline_perception.extras.report.causes import Cause, worst_frames

ORDINARY = 9
HELD_UP = {
    **{'path': '', 'outcome': 1, 'feasible': False, 'deadline_met': False},
    **{'bound_ms': float('nan'), 'network_ms': 0.0, 'total_ms': 100.0},
}
SLOW = {'network_ms': 120.0, 'total_ms': 130.0, 'bound_ms': 90.0}
TIGHT = {'network_ms': 98.0, 'total_ms': 108.0}
LATE = {'total_ms': 150.0, 'network_ms': 50.0}
AGED = {**LATE, 'feasible': False, 'age_ms': 90.0, 'queue_ms': 5.0}
COASTED = {'total_ms': 99.0, 'outcome': 1, 'queue_ms': 5.0}
PUBLISHED_LATE = {'total_ms': 140.0, 'queue_ms': 5.0, 'publish_ms': 81.0, 'overhead_ms': 86.0}


@pytest.mark.parametrize(
    'fields, cause, words',
    [
        (HELD_UP, Cause.HELD_UP, 'waited 95 ms for the frame before, until its deadline'),
        (SLOW, Cause.BOUND_EXCEEDED, 'took 120 ms, 30 ms beyond its bound, most of it in conv'),
        ({**TIGHT, 'bound_ms': 120.0}, Cause.BOUND_EXCEEDED, 'took 98 ms where it had 90'),
        (
            {**TIGHT, 'feasible': False, 'bound_ms': 105.0},
            Cause.INFEASIBLE,
            'even the cheapest path (bound 105 ms) did not fit the 90 ms that were left of 100 ms',
        ),
        (
            {**HELD_UP, 'age_ms': 120.0, 'total_ms': 121.0},
            Cause.ARRIVED_LATE,
            'even the cheapest path did not fit the 90 ms',
        ),
        (
            {**SLOW, 'decision': {'slowdown': 1.8}},
            Cause.BOUND_EXCEEDED,
            'while other work slowed everything down 1.8-fold.',
        ),
        (AGED, Cause.ARRIVED_LATE, 'spent 90 ms on its way from the camera, and even the cheapest'),
        ({**LATE, 'queue_ms': 95.0}, Cause.ARRIVED_LATE, 'spent 95 ms waiting'),
        (COASTED, Cause.COASTED, 'after 50 ms in the network (bound 60 ms)'),
        (PUBLISHED_LATE, Cause.OVERHEAD, '86 ms went outside it, most of them publishing'),
    ],
)
def test_names_the_cause_of_one_frame_among_ordinary_ones(recorded, fields, cause, words):
    recording = recorded(*[{}] * ORDINARY, {'decision': {}} | fields)
    worst = worst_frames(recording)
    assert [blame.cause for blame in worst] == [cause] + [Cause.NONE] * ORDINARY
    assert worst[0].frame is recording.frames[ORDINARY]
    assert words in worst[0].sentence[:1].lower() + worst[0].sentence[1:]
