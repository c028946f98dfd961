import pytest
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Image

from deadline_perception.nodes.image_input import LONGEST_TRANSPORT_NS, ImageInput


class Taken:
    """What an input gave."""

    def __init__(self):
        self.wanted, self.names, self.waited_ns, self.left_out = True, [], [], 0

    def image(self, message, waited_ns, left_out):
        self.names.append(message.header.frame_id)
        self.waited_ns.append(waited_ns)
        self.left_out += left_out


@pytest.fixture
def taken():
    return Taken()


@pytest.fixture
def one(observer, namespace, taken):
    answers = {'on_image': taken.image, 'is_wanted': lambda: taken.wanted}
    one = ImageInput(observer.node, f'{namespace}/image', 'raw', 'auto', **answers)
    yield one
    one.close()


@pytest.fixture
def camera(make_node, namespace, wait_for):
    """Publishes images by name, from a participant of its own."""
    node = make_node('camera', namespace=namespace)

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
        wait_for(lambda: publisher.get_subscription_count() == node.count_subscribers('image') > 0)
        return publish

    return make


def test_unwanted_images_wait_and_the_newest_is_taken(one, camera, taken, observer, wait_for):
    others = observer.hear(Image, 'image')
    publish = camera()
    publish('first')
    wait_for(lambda: taken.names == ['first'], 'the first image')
    taken.wanted = False
    one.wake()
    for name in ('second', 'third', 'fourth'):
        publish(name)
    wait_for(lambda: others and others[-1].header.frame_id == 'fourth')
    assert taken.names == ['first']
    taken.wanted = True
    one.wake()
    wait_for(lambda: 'fourth' in taken.names, 'the newest image')
    assert taken.left_out == 4 - len(taken.names) - one.flow.lost
    assert all(0 <= waited_ns < LONGEST_TRANSPORT_NS for waited_ns in taken.waited_ns)


def test_once_best_effort_is_gone_all_is_reliable(one, camera, taken, wait_for):
    def reliability():
        return one._subscription.qos_profile.reliability

    reliable, other = camera(), camera(ReliabilityPolicy.BEST_EFFORT)
    wait_for(lambda: reliability() == ReliabilityPolicy.BEST_EFFORT, 'the weaker subscription')
    wait_for(lambda: other('other') or 'other' in taken.names, 'an image of the other')
    other.end()
    wait_for(lambda: reliability() == ReliabilityPolicy.RELIABLE, 'the reliable subscription')
    wait_for(lambda: reliable('again') or 'again' in taken.names, 'an image of the first')
    assert one.flow.lost == 0 and one._strengthener is None
