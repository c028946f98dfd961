"""The live view serves a page and its data; what it says of a frame is checked without the SDK."""

import math
import sys
import urllib.request
from contextlib import closing
from dataclasses import replace
from unittest.mock import MagicMock

import pytest
from plain_images import grey
from waiting import free_port

from deadline_perception.core.detections import Detections
from deadline_perception.core.operator_record import OperatorRecord
from deadline_perception.extras.report.live_view import LiveView, ViewedFrame, ViewError, described

SCALE = OperatorRecord('scale', 'scale', '0.53', 1, 3, True, True, 20.0, 30.0)
FRAME = ViewedFrame(
    time_s=1.0,
    image_bgr=grey(48, 64),
    detections=Detections([[1, 2, 30, 40]], [0.9], [0]),
    class_names=('vehicle',),
    ids=(7,),
    budget_ms=50.0,
    bound_ms=40.0,
    latency_ms=23.4,
    path='r0.53',
    outcome='detected',
    in_time=True,
    operators=(SCALE,),
    reason='the best path that fits',
)


def test_a_frame_in_words_names_time_path_and_every_decision(monkeypatch):
    words = described(FRAME)
    assert '**23 of 50 ms**, bound 40: detected, in time' in words and '`r0.53`' in words
    assert '| scale | 0.53 | 2 of 3 | changed |' in words
    late = described(replace(FRAME, in_time=False, bound_ms=math.nan, path='', operators=()))
    assert '**missed**' in late and 'bound' not in late and 'no path' in late and '|' not in late
    monkeypatch.setitem(sys.modules, 'rerun', None)
    with pytest.raises(ViewError, match=r'pip install "deadline_perception\[view\]"'):
        LiveView()


def test_time_begins_with_the_first_frame_and_the_source_is_shown_before(monkeypatch):
    sdk = MagicMock()
    monkeypatch.setitem(sys.modules, 'rerun', sdk)
    monkeypatch.setitem(sys.modules, 'rerun.blueprint', sdk)
    view, stream = LiveView(), sdk.RecordingStream.return_value
    view.wait(grey(480, 1280))
    assert sdk.Image.call_args.args[0].shape == (240, 640, 3)
    assert [call.args[0] for call in stream.log.call_args_list] == ['camera', 'frame']
    for time_s in (1.79e9, 1.79e9 + 2.0):
        view.show(replace(FRAME, time_s=time_s))
    assert [call.kwargs['duration'] for call in stream.set_time.call_args_list] == [0.0, 2.0]


def test_serves_a_page_that_needs_nothing_outside():
    pytest.importorskip('rerun')
    data, web = free_port(), free_port()
    view = LiveView(grpc_port=data, web_port=web)
    with closing(view):
        view.wait(FRAME.image_bgr)
        view.show(FRAME)
        view.show(replace(FRAME, time_s=2.0, detections=Detections.none(), ids=(), in_time=False))
        assert (
            view.address.startswith(f'http://localhost:{web}/?url=') and str(data) in view.address
        )
        with urllib.request.urlopen(view.address, timeout=20) as page:
            assert b'<html' in page.read().lower()
