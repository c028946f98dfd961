from plain_images import grey, write_images
from sensor_msgs.msg import Image

from deadline_perception.core.images.image_message import to_bgr
from deadline_perception.nodes.messages import stamp_to_ns


def test_a_folder_of_images_is_played_as_a_camera(start_node, observer, wait_for, tmp_path):
    write_images(tmp_path, [grey(48, 64, 10), grey(48, 64, 200)])
    heard = observer.hear(Image, 'image')
    node = start_node('camera_player', {'source': tmp_path, 'rate_hz': 20.0})
    wait_for(lambda: len(heard) >= 5, 'five images')
    values = [int(to_bgr(message)[0, 0, 0]) for message in heard]
    assert set(values) == {10, 200} and all(a != b for a, b in zip(values, values[1:]))
    stamps = [stamp_to_ns(message.header.stamp) for message in heard]
    assert stamps == sorted(stamps) and heard[0].header.frame_id == 'camera'
    assert node.process.poll() is None


def test_a_webcam_that_is_not_there_ends_the_node_with_one_line(start_node):
    node = start_node('camera_player', {'source': '/dev/video97'})
    assert node.wait_ended() == 1
    assert 'webcam 97 (/dev/video97) cannot be opened' in node.output
    assert 'Traceback' not in node.output
