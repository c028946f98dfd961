"""Images through real DDS: taken while wanted, the newest first, those left out counted; of all cameras."""

from __future__ import annotations

import pytest
import rclpy
from hand_clock import Clock
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Image

from deadline_perception.nodes.image_input import LONGEST_TRANSPORT_NS, ImageInput
from deadline_perception.runtime.image_flow import ImageFlow


class Taken:
    """What an input gave."""

    def __init__(self) -> None:
        self.wanted = True
        self.images: list[tuple[str, int, int]] = []

    def image(self, message: Image, waited_ns: int, left_out: int) -> None:
        self.images.append((message.header.frame_id, waited_ns, left_out))

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
        made.append(
            ImageInput(
                observer.node,
                f'{namespace}/image',
                'raw',
                reliability,
                on_image=taken.image,
                is_wanted=lambda: taken.wanted,
            )
        )
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
        publisher = node.create_publisher(
            Image,
            'image',
            QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=10, reliability=reliability),
        )

        def publish(name: str) -> None:
            message = Image(height=2, width=2, encoding='bgr8', step=6, data=bytes(12))
            message.header.frame_id = name
            publisher.publish(message)

        publish.end = lambda: node.destroy_publisher(publisher)
        wait_for(
            lambda: publisher.get_subscription_count() == node.count_subscribers('image') > 0,
            'the subscription',
        )
        return publish

    yield make
    node.destroy_node()
    context.try_shutdown()


def test_unwanted_images_wait_and_the_newest_is_taken(images, camera, taken, observer, wait_for):
    others = observer.hear(Image, 'image')
    one, publish = images(), camera()
    publish('first')
    wait_for(lambda: taken.names == ['first'], 'the first image')
    taken.wanted = False
    one.wake()
    for name in ('second', 'third', 'fourth'):
        publish(name)
    wait_for(
        lambda: others and others[-1].header.frame_id == 'fourth', 'the newest image, by others'
    )
    assert taken.names == ['first']
    taken.wanted = True
    one.wake()
    wait_for(lambda: 'fourth' in taken.names, 'the newest image')
    assert sum(left_out for _, _, left_out in taken.images) == 4 - len(taken.images) - one.flow.lost
    assert all(0 <= waited_ns < LONGEST_TRANSPORT_NS for _, waited_ns, _ in taken.images)


def test_once_best_effort_is_gone_all_is_reliable(images, camera, taken, wait_for):
    one = images('auto')

    def reliability():
        return one._subscription.qos_profile.reliability

    reliable, other = camera(), camera(ReliabilityPolicy.BEST_EFFORT)
    wait_for(lambda: reliability() == ReliabilityPolicy.BEST_EFFORT, 'the weaker subscription')
    wait_for(lambda: other('other') or 'other' in taken.names, 'an image of the other')
    other.end()
    wait_for(lambda: reliability() == ReliabilityPolicy.RELIABLE, 'the reliable subscription')
    wait_for(lambda: reliable('again') or 'again' in taken.names, 'an image of the first')
    assert one.flow.lost == 0 and one._strengthener is None


def test_where_wanted_images_do_not_come_it_subscribes_anew(images, camera, taken, wait_for):
    one, publish, clock = images(), camera(), Clock()
    one.flow = ImageFlow(one.flow.topic, clock)
    before = one._subscription
    for number in range(1, 200, 5):  # four of five are missing
        clock.ms += 500.0
        one._on_message(Image(), {'publication_sequence_number': number})
        if one._subscription is not before:
            break
    assert one._subscription is not before
    assert any('did not come in 5 s though they were wanted' in words for words in one.concerns)
    wait_for(lambda: publish('after') or 'after' in taken.names, 'an image of the new subscription')
