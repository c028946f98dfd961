"""Images through real DDS: taken while wanted, the newest first, those left out counted; of all cameras."""
from __future__ import annotations

import pytest
import rclpy
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Image

from deadline_perception.nodes.image_input import LONGEST_TRANSPORT_NS, ImageInput


class Taken:
    """What an input gave."""

    def __init__(self) -> None:
        self.wanted = True
        self.images: list[tuple[str, int, int]] = []
        self.lost = 0

    def image(self, message: Image, waited_ns: int, left_out: int) -> None:
        self.images.append((message.header.frame_id, waited_ns, left_out))

    def add_lost(self, count: int) -> None:
        self.lost += count

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.images]


@pytest.fixture
def taken():
    return Taken()


@pytest.fixture
def images(observer, namespace, taken):
    """Makes an input; it is closed with the test."""
    made = []

    def make(reliability='auto'):
        made.append(ImageInput(observer.node, Image, f'{namespace}/image', reliability, on_image=taken.image,
                               is_wanted=lambda: taken.wanted, on_lost=taken.add_lost))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def camera(namespace, wait_for):
    """Publishes images by name, from a participant of its own."""
    context = rclpy.Context()
    rclpy.init(context=context)
    node = rclpy.create_node('camera', namespace=namespace, context=context)

    def make(reliability=ReliabilityPolicy.RELIABLE):
        publisher = node.create_publisher(Image, 'image', QoSProfile(
            history=HistoryPolicy.KEEP_LAST, depth=10, reliability=reliability))

        def publish(name: str) -> None:
            message = Image(height=2, width=2, encoding='bgr8', step=6, data=bytes(12))
            message.header.frame_id = name
            publisher.publish(message)
        wait_for(lambda: publisher.get_subscription_count() == node.count_subscribers('image') > 0, 'the subscription')
        return publish

    yield make
    node.destroy_node()
    context.try_shutdown()


def test_while_none_is_wanted_images_wait_and_the_newest_comes_with_the_number_of_those_it_replaced(
        images, camera, taken, observer, wait_for):
    others = observer.hear(Image, 'image')
    one, publish = images(), camera()
    publish('first')
    wait_for(lambda: taken.names == ['first'], 'the first image')
    taken.wanted = False
    one.wake()
    for name in ('second', 'third', 'fourth'):
        publish(name)
    wait_for(lambda: others and others[-1].header.frame_id == 'fourth', 'the newest image, by others')
    assert taken.names == ['first']
    taken.wanted = True
    one.wake()
    wait_for(lambda: 'fourth' in taken.names, 'the newest image')
    assert sum(left_out for _, _, left_out in taken.images) == 4 - len(taken.images) - taken.lost
    assert all(0 <= waited_ns < LONGEST_TRANSPORT_NS for _, waited_ns, _ in taken.images)


def test_a_camera_that_is_not_reliable_is_heard_all_the_same(images, camera, taken, wait_for):
    images('auto')
    publish = camera(ReliabilityPolicy.BEST_EFFORT)
    wait_for(lambda: publish('any') or taken.images, 'an image')
    assert set(taken.names) == {'any'}
