from __future__ import annotations

import signal
import time
from dataclasses import replace

import numpy as np
import pytest
from geometry_msgs.msg import TwistStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from vision_msgs.msg import Detection2DArray

from deadline_perception.datasets.bag import write_bag
from deadline_perception.datasets.image_message import to_bgr
from deadline_perception.datasets.records import Frame, GroundTruth, Sequence
from deadline_perception.nodes.messages import stamp_to_ns
from deadline_perception.runtime.supervision import TRY_AGAIN_STATUS

FRAMES = 12
PERIOD_NS = 50_000_000
BEST_EFFORT = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)


def picture(number):
    return np.full((48, 64, 3), 10 * number, np.uint8)


def sequence(**changes):
    truth = GroundTruth([(1, 2, 11, 22)], [0], [False])
    frames = tuple(Frame(f'f{n}', 5_000_000_000 + n * PERIOD_NS, lambda n=n: picture(n), float(n), truth)
                   for n in range(FRAMES))
    return replace(Sequence('drive', ('vehicle',), frames), **changes)


@pytest.fixture
def bag(tmp_path):
    write_bag(sequence(), tmp_path / 'drive.mcap')
    return tmp_path / 'drive.mcap'


def stamps(messages):
    return [stamp_to_ns(message.header.stamp) for message in messages]


def test_every_message_arrives_with_stamps_moved_to_now_and_still_in_step(start_node, observer, wait_for, bag):
    images = observer.hear(Image, '/camera/image_raw')
    loose = observer.hear(Image, '/camera/image_raw', BEST_EFFORT)
    infos = observer.hear(CameraInfo, '/camera/camera_info')
    truths = observer.hear(Detection2DArray, '/ground_truth')
    speeds = observer.hear(TwistStamped, '/vehicle/speed')
    begun_ns = time.time_ns()
    player = start_node('bag_player', {'bag': bag, 'wait_for_subscribers': 2})
    assert player.wait_ended() == 0, player.output
    assert f'played {4 * FRAMES} messages, {FRAMES} of them images' in player.output
    wait_for(lambda: [len(heard) for heard in (images, infos, truths, speeds)] == [FRAMES] * 4, 'all messages')
    assert loose  # best effort promises no more
    assert stamps(images) == stamps(infos) == stamps(truths) == stamps(speeds)
    assert begun_ns < stamps(images)[0] and stamps(images)[-1] < time.time_ns()
    assert np.diff(stamps(images)).min() > 0
    assert all(stamps([truth]) == stamps(truth.detections) for truth in truths)
    for number, image in enumerate(images):
        np.testing.assert_array_equal(to_bgr(image), picture(number))
    assert [message.twist.linear.x for message in speeds] == [float(n) for n in range(FRAMES)]


@pytest.mark.parametrize('parameters', [{'restamp': False}, {'use_sim_time': True}])
def test_recorded_stamps_stay_and_the_clock_runs_along(start_node, observer, wait_for, bag, parameters):
    images = observer.hear(Image, '/camera/image_raw')
    clocks = observer.hear(Clock, '/clock', QoSProfile(depth=1000))
    player = start_node('bag_player', {'bag': bag, 'rate': 2.0, **parameters})
    assert player.wait_ended() == 0, player.output
    end_ns = 5_000_000_000 + (FRAMES - 1) * PERIOD_NS
    wait_for(lambda: len(images) == FRAMES and clocks and stamp_to_ns(clocks[-1].clock) == end_ns, 'all messages')
    assert stamps(images) == [5_000_000_000 + n * PERIOD_NS for n in range(FRAMES)]
    times = [stamp_to_ns(message.clock) for message in clocks]
    assert times == sorted(times) and len(times) > FRAMES


def test_compressed_images_are_played_under_another_name(start_node, observer, wait_for, tmp_path):
    write_bag(sequence(), tmp_path / 'small.mcap', compressed=True)
    images = observer.hear(CompressedImage, '/front/image/compressed')
    player = start_node('bag_player', {'bag': tmp_path / 'small.mcap', 'image_topic': '/front/image', 'rate': 5.0})
    assert player.wait_ended() == 0, player.output
    wait_for(lambda: len(images) == FRAMES, 'all images')
    assert np.abs(to_bgr(images[7]).astype(int) - picture(7)).max() <= 3


def test_loops_until_told_to_stop_and_then_ends_cleanly(start_node, observer, wait_for, bag):
    images = observer.hear(Image, '/camera/image_raw')
    player = start_node('bag_player', {'bag': bag, 'loop': True, 'rate': 5.0})
    wait_for(lambda: len(images) > 2 * FRAMES + 2, 'the third round')
    assert player.process.poll() is None
    assert np.diff(stamps(images)).min() > 0  # moved stamps never go back
    assert player.end(signal.SIGINT) == 0
    assert 'Traceback' not in player.output


def test_long_pause_is_shortened_and_said(start_node, observer, wait_for, tmp_path):
    frames = list(sequence().frames)
    frames[6:] = [replace(frame, stamp_ns=frame.stamp_ns + 3_600_000_000_000) for frame in frames[6:]]
    write_bag(sequence(frames=tuple(frames)), tmp_path / 'gap.mcap')
    images = observer.hear(Image, '/camera/image_raw')
    player = start_node('bag_player', {'bag': tmp_path / 'gap.mcap', 'longest_gap_s': 0.3})
    assert player.wait_ended() == 0, player.output
    wait_for(lambda: len(images) == FRAMES, 'all images')
    assert 'a pause of 3600.1 s in the bag is shortened to 0.3 s' in player.output


def test_nobody_listening_ends_with_an_error(start_node, bag):
    player = start_node('bag_player', {'bag': bag, 'wait_timeout_s': 0.5, 'wait_for_subscribers': 3})
    assert player.wait_ended() == TRY_AGAIN_STATUS
    assert '/camera/image_raw has fewer than 3 subscribers' in player.output


def test_bad_bags_end_with_one_line(start_node, bag, tmp_path):
    cut = tmp_path / 'cut.mcap'
    cut.write_bytes(bag.read_bytes()[:20_000])
    for file, complaint in ((tmp_path / 'none.mcap', 'does not exist'), (cut, 'may be cut off or no bag')):
        player = start_node('bag_player', {'bag': file})
        assert player.wait_ended() == 1
        assert complaint in player.output and 'Traceback' not in player.output
    player = start_node('bag_player', {'bag': bag, 'exclude': "['*']"})
    assert player.wait_ended() == 1
    assert 'holds nothing to play but excluded topics: /camera/camera_info' in player.output
