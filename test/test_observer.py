"""The observer outside: messages are joined by their image's stamp, and a difference is told by its cause."""

from __future__ import annotations

import math

import pytest

MS = 1_000_000
STAMP_NS = 1_700_000_000_000_000_000


@pytest.fixture(scope='module')
def observed(load_benchmark):
    return load_benchmark('observed_latency')


def heard(observed, stamp_ns, *, written_ms=49.9, received_ms=50.2, called_ms=50.5):
    """Detections of an image, by their times after its stamp."""
    called, written, received = (
        stamp_ns + round(at_ms * MS) for at_ms in (called_ms, written_ms, received_ms)
    )
    return observed.Heard(stamp_ns, called, written, received)


def told(observed, stamp_ns, total_ms=50.0):
    """A latency message, heard 51 ms after the image's stamp."""
    at_ns = stamp_ns + 51 * MS
    return observed.HeardLatency(stamp_ns, at_ns, at_ns, at_ns, total_ms, 0)


def test_messages_are_joined_by_their_stamp_and_the_rest_is_counted(observed):
    stamps = [STAMP_NS + number * 50 * MS for number in range(5)]
    first, *_ = found = [heard(observed, stamp) for stamp in stamps[:4]]
    latencies = [told(observed, stamp) for stamp in (stamps[4], *stamps[1::-1])]
    latencies.append(told(observed, stamps[2], math.nan))
    again = heard(observed, stamps[0], called_ms=90.0)
    joined = observed.join([*found, again], latencies)
    assert [frame.detections.stamp_ns for frame in joined.frames] == stamps[:2]
    assert joined.frames[0].detections is first
    assert (joined.without_latency, joined.without_detections, joined.unknown_age) == (1, 1, 1)
    assert observed.within(found, stamps[1], stamps[3]) == found[1:3]


def test_a_difference_is_the_sum_of_its_parts(observed):
    (frame,) = observed.join([heard(observed, STAMP_NS)], [told(observed, STAMP_NS)]).frames
    parts = [getattr(frame, f'{part}_ms') for part in observed.PARTS]
    assert parts == pytest.approx([-0.1, 0.3, 0.3])
    assert frame.difference_ms == pytest.approx(sum(parts))
    assert frame.received_difference_ms == pytest.approx(0.2)
    assert (frame.called_ms, frame.follows_ms) == pytest.approx((50.5, 0.5))


@pytest.mark.parametrize(
    ('times', 'cause'),
    [
        ({'called_ms': 60.0}, 'observer'),
        ({'received_ms': 58.0, 'called_ms': 58.3}, 'middleware'),
        # The node was interrupted within the publishing call: before the message was out, and after it.
        ({'written_ms': 20.0, 'received_ms': 50.2}, 'observer'),
        ({'written_ms': 20.0, 'received_ms': 20.3, 'called_ms': 20.6}, 'node'),
    ],
)
def test_a_difference_is_told_by_its_cause(observed, times, cause):
    (frame,) = observed.join(
        [heard(observed, STAMP_NS, **times)], [told(observed, STAMP_NS)]
    ).frames
    assert frame.cause == cause


def test_agreement_is_judged_by_distance_so_that_early_and_late_do_not_cancel(observed):
    found = observed.spread([-3.0, 0.5, 0.5, 2.0])
    assert found['p50'] == 0.5 and found['max_distance'] == 3.0
    assert found['p99_distance'] == pytest.approx(2.97) and found['share_beyond'] == 0.5
    assert observed.spread([]) == dict.fromkeys(found)


def test_what_is_said_of_some_frames_counts_those_beyond_by_cause(observed):
    stamps = [STAMP_NS + number * 50 * MS for number in range(3)]
    calls_ms = (50.5, 50.5, 60.0)
    found = [heard(observed, stamp, called_ms=at) for stamp, at in zip(stamps, calls_ms)]
    frames = observed.join(found, [told(observed, stamp) for stamp in stamps]).frames
    said = observed.figures(frames)
    assert said['beyond_by_cause'] == {'observer': 1}
    assert said['published']['p99'] == 50.0 and said['observed']['max'] == 60.0
    assert said['difference']['p50'] == 0.5 and said['parts']['node']['p50'] == -0.1
