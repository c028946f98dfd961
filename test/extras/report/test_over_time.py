"""What the page's script reads of each frame is that frame's, and safe to show."""

import json

import pytest
from recorded_run import UNSTAMPED

from deadline_perception.extras.report.gallery import frame_pictures
from deadline_perception.extras.report.over_time import (
    cursor_data,
    drawn_over_time,
    run_over_time,
    shared_scales,
)


def cursor_of(recording, pictures):
    run = run_over_time(recording, pictures)
    return cursor_data([run], shared_scales([run]))


def test_every_drawn_frame_has_its_moment_figures_and_picture(drive, images):
    pictures = frame_pictures(drive, images(60))
    data = cursor_of(drive, pictures)
    (shown,) = data['runs']
    assert len(shown) == len(drive.frames) == len(pictures)
    for frame, entry in zip(drive.frames, shown):
        assert entry['t'] == pytest.approx((frame.stamp_ns - drive.sent_stamps_ns[0]) / 1e9)
        assert entry['picture'] == pictures[frame.stamp_ns]
        assert f'took <b>{frame.total_ms:.0f} ms</b>' in entry['text']
        assert frame.path in entry['text']
    assert (data['begin'], data['end']) == (shown[0]['t'], shown[-1]['t'])


def test_frames_without_an_image_have_figures_alone(recorded):
    data = cursor_of(recorded({}, {}), {})
    assert ['picture' in entry for entry in data['runs'][0]] == [False, False]
    json.dumps(data, allow_nan=False)


def test_words_of_a_recording_are_escaped(recorded):
    fields = {'path': '<img src=x onerror=alert(1)>', 'decision': {'reason': '<b>not mine</b>'}}
    text = cursor_of(recorded(fields), {})['runs'][0][0]['text']
    assert '<img' not in text and '<b>not' not in text and '&lt;img src=x' in text


def test_nothing_is_drawn_over_time_without_a_stamp(recorded):
    run = run_over_time(recorded(UNSTAMPED), {})
    assert not any(drawn_over_time(run, shared_scales([run])).values())
