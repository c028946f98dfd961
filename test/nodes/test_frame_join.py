import pytest
from deadline_perception.msg import FrameLatency
from sensor_msgs.msg import CompressedImage, Image
from stamped_messages import header

from deadline_perception.nodes.frame_join import FrameJoin


@pytest.mark.parametrize('kind', [Image, CompressedImage])
@pytest.mark.parametrize('image_first', [True, False])
def test_a_frame_is_given_once_with_its_last_message(kind, image_first):
    join = FrameJoin(2)
    image, latency = kind(header=header(7)), FrameLatency(header=header(7))
    first, last = (image, latency) if image_first else (latency, image)
    assert join.join(first) is None and join.join(kind(header=header(8))) is None
    assert join.join(last) == {Image: image, FrameLatency: latency}
    assert join.join(last) is None


def test_the_oldest_frames_go():
    join = FrameJoin(2, frames=2)
    for stamp_ns in (1, 2, 3):
        join.join(FrameLatency(header=header(stamp_ns)))
    join.join(Image(header=header(4)))
    assert join.join(Image(header=header(1))) is None
    join.clear()
    assert join.join(FrameLatency(header=header(4))) is None
