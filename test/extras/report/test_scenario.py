"""Sequences are cut and get a speed, and say so."""

import pytest
from plain_images import grey
from read_sequences import frame_names, speeds_mps

from deadline_perception.extras.data.records import Frame, Sequence
from deadline_perception.extras.report.scenario import (
    TOP_SPEED_MPS,
    limited,
    with_speed_in_every_frame,
)


def sequence(*speeds: float | None) -> Sequence:
    frames = [
        Frame(str(index), 5_000_000_000 + index * 100_000_000, lambda: grey(2, 2), speed)
        for index, speed in enumerate(speeds)
    ]
    return Sequence('town', (), tuple(frames))


def test_cuts_what_is_too_long_and_says_how_much():
    cut, note = limited(sequence(*[1.0] * 25), 2.0)
    assert frame_names(cut) == [str(index) for index in range(20)]
    assert '5 of 25 frames were left out' in note
    whole = sequence(1.0, 1.0)
    assert limited(whole, 2.0) == (whole, '')
    with pytest.raises(ValueError, match='seconds is 0'):
        limited(whole, 0)


def test_keeps_recorded_speeds_fills_gaps_and_makes_up_what_is_not_recorded():
    whole = sequence(3.0, 4.0)
    assert with_speed_in_every_frame(whole) == (whole, '')
    filled, note = with_speed_in_every_frame(sequence(None, 3.0, None, 5.0))
    assert speeds_mps(filled) == [3.0, 3.0, 3.0, 5.0]
    assert '2 of 4 frames' in note
    made_up, note = with_speed_in_every_frame(sequence(*[None] * 320))
    speeds = speeds_mps(made_up)
    assert min(speeds) == 0.0 and max(speeds) == pytest.approx(TOP_SPEED_MPS)
    assert 'no recorded speed' in note
