import array
from dataclasses import replace

import numpy as np
import pytest
from deadline_perception.msg import TimeBudget
from hypothesis import given
from hypothesis import strategies as st
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Image
from stamped_messages import header
from std_msgs.msg import Header

from deadline_perception.core.detections import Detections
from deadline_perception.core.images.image_message import ImageError
from deadline_perception.nodes import messages
from deadline_perception.nodes.messages import (
    MOST_TEXT_BYTES,
    DetectionsMessage,
    bgr_to_image,
    bounded,
    message_to_detections,
    ns_to_stamp,
    stamp_to_ns,
    to_bgr,
)

NAMES = ('vehicle', 'bike', 'motorbike', 'traffic_light', 'traffic_sign')


def picture(height=6, width=8, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def deep_image(encoding, pixels, **given):
    height, width = pixels.shape[:2]
    data = array.array('B', pixels.tobytes())
    layout = {'height': height, 'width': width, 'step': pixels[0].nbytes, 'data': data}
    return Image(encoding=encoding, **layout, **given)


def test_encodings_that_are_not_known_are_left_to_cv_bridge():
    pytest.importorskip('cv_bridge')
    image = picture(6, 8)
    message = deep_image('rgb16', image[:, :, ::-1].astype(np.uint16) * 256)
    # of 8 bit; from 16 to 8 bit it divides by 257
    np.testing.assert_allclose(to_bgr(message).astype(int), image, atol=1)
    assert bgr_to_image(image, header()).header == header()
    message.data = message.data[:-1]
    with pytest.raises(ImageError, match="encoding 'rgb16' cannot be converted by cv_bridge"):
        to_bgr(message)


def test_deep_encodings_that_are_known_need_no_cv_bridge_and_give_what_it_gives(monkeypatch):
    grey = deep_image('mono16', picture(6, 8)[:, :, 0].astype(np.uint16) * 257)
    pattern = deep_image('bayer_rggb16', np.full((6, 8), 100 * 257, np.uint16))
    if messages._BRIDGE is not None:
        np.testing.assert_array_equal(to_bgr(grey), messages._bridge_to_bgr(grey))
    monkeypatch.setattr(messages, '_BRIDGE', None)
    np.testing.assert_array_equal(to_bgr(grey), np.repeat(picture(6, 8)[:, :, :1], 3, axis=2))
    np.testing.assert_array_equal(to_bgr(pattern), np.full((6, 8, 3), 100, np.uint8))


@pytest.mark.parametrize(('encoding', 'kind'), [('32FC1', np.float32), ('mono65', np.uint8)])
def test_an_image_that_is_no_picture_is_refused_with_or_without_cv_bridge(encoding, kind):
    with pytest.raises(ImageError, match=f"encoding.* '{encoding}'.* expected .*bgr8"):
        to_bgr(deep_image(encoding, np.ones((4, 4), kind)))


@given(st.integers(-(2**31) * 10**9, 2**31 * 10**9 - 1))
def test_stamps_round_trip(stamp_ns):
    assert stamp_to_ns(ns_to_stamp(stamp_ns)) == stamp_ns
    with pytest.raises(ValueError, match='expected seconds within 32 bits'):
        ns_to_stamp(2**31 * 10**9)


def found():
    return Detections([(10, 20, 30, 60), (0.5, 1.5, 2.25, 3.75)], [0.875, 0.25], [3, 0])


def test_detections_round_trip_and_every_one_carries_the_header_and_the_name():
    sent = DetectionsMessage(NAMES).fill(found(), header())
    assert sent.header == header() and all(d.header == header() for d in sent.detections)
    box, centre = sent.detections[0].bbox, sent.detections[0].bbox.center.position
    assert (centre.x, centre.y, box.size_x, box.size_y) == (20.0, 40.0, 20.0, 40.0)
    back, names = message_to_detections(sent)
    for name in ('boxes_xyxy_px', 'scores'):
        np.testing.assert_array_equal(getattr(back, name), getattr(found(), name))
    assert names == ('traffic_light', 'vehicle') and back.labels.tolist() == [0, 1]
    assert [one.id for one in sent.detections] == ['', '']
    tracked = replace(found(), ids=np.array([12, 3]))
    message = DetectionsMessage(NAMES).fill(tracked, header())
    assert [one.id for one in message.detections] == ['12', '3']
    with pytest.raises(ValueError, match=r'labels lie in \[0, 3\], expected indices below 2'):
        DetectionsMessage(NAMES[:2]).fill(found(), header())
    sent.detections[1].results = []
    with pytest.raises(ValueError, match='no hypothesis'):
        message_to_detections(sent)


def test_a_message_that_is_filled_anew_holds_nothing_of_the_frame_before():
    message, next_header = DetectionsMessage(NAMES), Header(stamp=ns_to_stamp(2 * 10**18))
    fewer = Detections([[1, 2, 3, 5]], [0.25], [1])
    cases = ((found(), header()), (fewer, next_header), (Detections.none(), header()))
    for detections, frame_header in cases:
        sent = message.fill(detections, frame_header)
        assert serialize_message(sent) == serialize_message(
            DetectionsMessage(NAMES, 5).fill(detections, frame_header)
        )
        assert len(sent.detections) == len(detections)
        assert all(detection.header == frame_header for detection in sent.detections)


@pytest.mark.parametrize(
    'text', ['', 'short', 'a' * 2000, 'ä' * 999, '\ud800 half', 'a' + '€' * 400]
)
def test_own_texts_are_cut_where_a_character_ends(text):
    cut = bounded(text)
    assert len(cut.encode()) <= MOST_TEXT_BYTES
    assert text.startswith(cut) or '?' in cut
    assert TimeBudget(reason=cut).reason == cut
