import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from geometry_msgs.msg import TwistStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.task import Future
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CameraInfo, Image
from vision_msgs.msg import Detection2DArray

from deadline_perception.core.images.image_message import to_bgr
from deadline_perception.extras.data.bag import write_bag
from deadline_perception.extras.data.bag_messages import BagMessages
from deadline_perception.extras.data.message_definitions import message_types
from deadline_perception.extras.data.records import Frame, GroundTruth, Sequence
from deadline_perception.nodes.bag_player import BagPlayerNode
from deadline_perception.nodes.messages import stamp_to_ns
from deadline_perception.system.supervision import TRY_AGAIN_STATUS

pytestmark = pytest.mark.slow

FRAMES = 12
PERIOD_NS = 50_000_000
BEST_EFFORT = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)


def picture(number):
    return np.full((48, 64, 3), 10 * number, np.uint8)


def sequence(**changes):
    truth = GroundTruth([(1, 2, 11, 22)], [0], [False])
    frames = tuple(
        Frame(f'f{n}', 5_000_000_000 + n * PERIOD_NS, lambda n=n: picture(n), float(n), truth)
        for n in range(FRAMES)
    )
    return replace(Sequence('drive', ('vehicle',), frames), **changes)


@pytest.fixture
def bag(tmp_path):
    write_bag(sequence(), tmp_path / 'drive.mcap')
    return tmp_path / 'drive.mcap'


def stamps(messages):
    return [stamp_to_ns(message.header.stamp) for message in messages]


@pytest.fixture
def play(start_node):
    """Plays a bag to its end; gives what the player said."""

    def played(bag, **parameters):
        player = start_node('bag_player', {'bag': bag, **parameters})
        assert player.wait_ended() == 0, player.output
        return player.output

    return played


def test_every_message_arrives_with_its_stamp_moved_to_now(play, observer, wait_for, bag):
    images = observer.hear(Image, '/camera/image_raw')
    loose = observer.hear(Image, '/camera/image_raw', BEST_EFFORT)
    infos = observer.hear(CameraInfo, '/camera/camera_info')
    truths = observer.hear(Detection2DArray, '/ground_truth')
    speeds = observer.hear(TwistStamped, '/vehicle/speed')
    begun_ns = time.time_ns()
    said = play(bag, wait_for_subscribers=2)
    assert f'played {4 * FRAMES} messages, {FRAMES} of them images' in said
    wait_for(lambda: [len(heard) for heard in (images, infos, truths, speeds)] == [FRAMES] * 4)
    assert loose  # best effort promises no more
    assert stamps(images) == stamps(infos) == stamps(truths) == stamps(speeds)
    assert begun_ns < stamps(images)[0] and stamps(images)[-1] < time.time_ns()
    assert np.diff(stamps(images)).min() > 0
    assert all(stamps([truth]) == stamps(truth.detections) for truth in truths)
    for number, image in enumerate(images):
        np.testing.assert_array_equal(to_bgr(image), picture(number))
    assert [message.twist.linear.x for message in speeds] == [float(n) for n in range(FRAMES)]


def test_in_simulated_time_stamps_stay_and_the_clock_runs(play, observer, wait_for, bag):
    images = observer.hear(Image, '/camera/image_raw')
    infos = observer.hear(CameraInfo, 'calibration')  # in the namespace
    clocks = observer.hear(Clock, '/clock', QoSProfile(depth=1000))
    play(bag, rate=2.0, use_sim_time=True, camera_info_topic='calibration')
    end_ns = 5_000_000_000 + (FRAMES - 1) * PERIOD_NS
    wait_for(lambda: len(images) == len(infos) == FRAMES)
    wait_for(lambda: stamp_to_ns(clocks[-1].clock) == end_ns)
    assert stamps(images) == [5_000_000_000 + n * PERIOD_NS for n in range(FRAMES)]
    times = [stamp_to_ns(message.clock) for message in clocks]
    assert times == sorted(times) and len(times) > FRAMES


def test_an_end_before_the_node_is_spun_is_not_lost():
    node = SimpleNamespace(
        _stopped=threading.Event(),
        context=SimpleNamespace(ok=lambda: True),
        executor=None,
        done=Future(),
    )
    BagPlayerNode._finish(node, 1)
    assert node.done.done() and node.done.result() == 1


def test_long_pause_is_shortened_and_said(play, observer, wait_for, tmp_path):
    frames = list(sequence().frames)
    hour_ns = 3_600_000_000_000
    frames[6:] = [replace(frame, stamp_ns=frame.stamp_ns + hour_ns) for frame in frames[6:]]
    write_bag(sequence(frames=tuple(frames)), tmp_path / 'gap.mcap')
    images = observer.hear(Image, '/camera/image_raw')
    assert 'a pause of 3600.1 s in the bag is shortened to 10 s' in play(
        tmp_path / 'gap.mcap', rate=20.0
    )
    wait_for(lambda: len(images) == FRAMES, 'all images')


def test_what_cannot_be_played_ends_with_one_line(start_node, bag, tmp_path):
    (tmp_path / 'cut.mcap').write_bytes(bag.read_bytes()[:20_000])
    store = get_typestore(Stores.ROS2_HUMBLE)
    with Writer(tmp_path / 'own', version=9) as writer:
        kind = 'std_msgs/msg/String'
        topic = writer.add_connection('/front/detector/path', kind, typestore=store)
        writer.write(topic, 1, store.serialize_cdr(store.types[kind]('s0'), kind))
    messages, kind = BagMessages(message_types()), 'sensor_msgs/msg/Image'
    image = messages.types.serialize_cdr(messages.image(1, picture(1)), kind)
    with Writer(tmp_path / 'two', version=8, storage_plugin=StoragePlugin.SQLITE3) as writer:
        for topic in ('/front/image', '/rear/image'):
            writer.write(writer.add_connection(topic, kind, typestore=messages.types), 1, image)
    taken = {'camera': '/rear/image', 'image_topic': '/front/image', 'wait_for_subscribers': 0}
    alone = {'wait_timeout_s': 0.5, 'wait_for_subscribers': 3}
    cases = (
        ('none.mcap', {}, 1, 'does not exist'),
        ('cut.mcap', {}, 1, 'holds no whole message'),
        ('own', {}, 1, 'holds nothing to play but excluded topics: /front/detector/path'),
        ('two', {}, 1, 'expected the argument camera to name one: /front/image (bgr8), /rear/'),
        ('two', {**taken, 'rate': 5.0}, 0, 'not played: /rear/image takes its name'),
        ('drive.mcap', alone, TRY_AGAIN_STATUS, 'raw has fewer than 3 subscribers'),
    )
    players = [start_node('bag_player', {'bag': tmp_path / name, **p}) for name, p, *_ in cases]
    for player, (_, _, status, words) in zip(players, cases):
        assert player.wait_ended() == status, player.output
        assert words in player.output and 'Traceback' not in player.output
