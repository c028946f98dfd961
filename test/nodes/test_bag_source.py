import numpy as np
import pytest
from rosbags.rosbag2 import StoragePlugin, Writer

from deadline_perception.extras.data.bag_file import BagError, BagFile
from deadline_perception.extras.data.bag_messages import BagMessages
from deadline_perception.extras.data.message_definitions import message_types
from deadline_perception.nodes.bag_source import choose_camera, read_ahead
from deadline_perception.nodes.bag_types import MessageTypeError, message_class

STRING, JPEG = 'std_msgs/msg/String', '; jpeg compressed bgr8'
IMAGE, COMPRESSED = 'sensor_msgs/msg/Image', 'sensor_msgs/msg/CompressedImage'


def words(folder, count):
    types = message_types()
    with Writer(folder, version=8, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection('/word', STRING, typestore=types)
        for time_ns in range(1, count + 1):
            writer.write(
                connection, time_ns, types.serialize_cdr(types.types[STRING](f'{time_ns}'), STRING)
            )
    return folder / f'{folder.name}.mcap'


def cameras(folder, **encodings):
    """A bag with one image per topic: `left__image='rgb8'` makes /left/image; a semicolon makes a CompressedImage."""
    messages = BagMessages(message_types())
    with Writer(folder, version=8, storage_plugin=StoragePlugin.MCAP) as writer:
        for name, encoding in encodings.items():
            kind = COMPRESSED if ';' in encoding else IMAGE
            message = messages.image(1, np.zeros((4, 6, 3), np.uint8))
            if kind == COMPRESSED:
                message = messages.compressed_image(1, np.zeros(9, np.uint8))
                message.format = encoding
            else:
                message.encoding = encoding
            connection = writer.add_connection(
                '/' + name.replace('__', '/'), kind, typestore=messages.types
            )
            writer.write(connection, 1, messages.types.serialize_cdr(message, kind))
    return BagFile(folder)


def test_reading_can_be_left_and_begun_again(tmp_path):
    bag = BagFile(words(tmp_path / 'bag', 499))
    for _, _, time_ns, _ in read_ahead(bag, {'/word'}):
        if time_ns == 3:
            break
    assert [time_ns for _, _, time_ns, _ in read_ahead(bag, {'/word'})] == list(range(1, 500))
    bag.close()


def test_whoever_reads_a_damaged_bag_is_told_behind_the_messages_before(tmp_path):
    file = words(tmp_path / 'bag', 40_000)
    whole = file.read_bytes()
    file.write_bytes(whole[:1_200_000] + bytes(400_000) + whole[1_600_000:])
    read = []
    with pytest.raises(BagError, match='bag.mcap is damaged'):
        for message in read_ahead(BagFile(file), {'/word'}):
            read.append(message)
    assert 10_000 < len(read) < 40_000


@pytest.mark.parametrize(
    ('encodings', 'camera', 'chosen'),
    [
        ({'cam__depth': '16UC1', 'cam__color': 'rgb8', 'cam__infra': 'mono8'}, '', '/cam/color'),
        ({'cam__depth': '16UC1; compressedDepth', 'cam__color': f'rgb8{JPEG}'}, '', '/cam/color'),
        ({'cam': 'bayer_rggb8', 'cam__compressed': f'bgr8{JPEG}'}, '', '/cam'),
        ({'cam': 'bgr8', 'cam__compressed': f'bgr8{JPEG}'}, '/cam/compressed', '/cam/compressed'),
        (dict.fromkeys(('left__compressed', 'r__compressed'), 'bgr8; jpeg'), '/r', '/r/compressed'),
        ({'cam': 'bgr8', 'path_visualizer__image': 'bgr8'}, '', '/cam'),
    ],
)
def test_the_only_or_the_named_colour_camera_is_chosen(tmp_path, encodings, camera, chosen):
    assert choose_camera(cameras(tmp_path / 'bag', **encodings), camera).name == chosen


def test_several_cameras_and_none_of_that_name_are_refused_with_their_topics(tmp_path):
    for name, encoding in (('a', 'mono8'), ('b', 'bgr8')):
        bag = cameras(tmp_path / name, left=encoding, right=encoding)
        with pytest.raises(
            BagError, match=rf'2 cameras, .* camera .*: /left \({encoding}\), /right \({encoding}'
        ):
            choose_camera(bag)
    with pytest.raises(
        BagError, match='has no camera /front, expected one of its image topics: /left, /right'
    ):
        choose_camera(bag, '/front')


@pytest.mark.parametrize('wrong', ['none_msgs/msg/None', 'sensor_msgs/msg/Nothing', 'Image', ''])
def test_type_that_is_not_installed_is_named(wrong):
    with pytest.raises(MessageTypeError, match=f'message type {wrong} is not installed'):
        message_class(wrong)
