from __future__ import annotations

import pytest
from rclpy.serialization import serialize_message
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from rosbags.rosbag2 import StoragePlugin, Writer
from std_msgs.msg import String

from deadline_perception.datasets.message_definitions import message_types
from deadline_perception.nodes.bag_source import BagSource, BagSourceError

ENDLESS = QosTime(2147483647, 4294967295)
LATCHED = Qos(QosHistory.KEEP_LAST, 1, QosReliability.RELIABLE, QosDurability.TRANSIENT_LOCAL, ENDLESS, ENDLESS,
              QosLiveliness.AUTOMATIC, ENDLESS, False)


def write(folder, times_ns, plugin=StoragePlugin.MCAP, qos=(), padding=''):
    with Writer(folder, version=8, storage_plugin=plugin) as writer:
        connection = writer.add_connection('/word', 'std_msgs/msg/String', typestore=message_types(),
                                           offered_qos_profiles=qos)
        for time_ns in times_ns:
            writer.write(connection, time_ns, serialize_message(String(data=f'{time_ns}{padding}')))
    return folder


@pytest.mark.parametrize('plugin', list(StoragePlugin))
def test_messages_come_in_the_order_of_their_times(tmp_path, plugin):
    source = BagSource(write(tmp_path / 'bag', [300, 100, 200], plugin))
    assert [(topic.name, topic.count, topic.is_image, topic.latched) for topic in source.topics] == [
        ('/word', 3, False, False)]
    assert [time_ns for _, _, time_ns, _ in source.messages({'/word'})] == [100, 200, 300]
    assert list(source.messages(set())) == []
    source.close()


def test_reading_can_be_left_and_begun_again(tmp_path):
    source = BagSource(write(tmp_path / 'bag', range(1, 500)))
    for _, _, time_ns, _ in source.messages({'/word'}):
        if time_ns == 3:
            break
    assert len(list(source.messages({'/word'}))) == 499
    source.close()


def test_offered_durability_is_known(tmp_path):
    assert BagSource(write(tmp_path / 'bag', [1], qos=[LATCHED])).topics[0].latched


@pytest.mark.parametrize(('content', 'complaint'), [
    (b'', 'cannot be read'), (b'no bag', 'cannot be read'), (None, 'does not exist, expected a bag folder or an .mcap')])
def test_missing_empty_or_foreign_file_is_named(tmp_path, content, complaint):
    file = tmp_path / 'bag.mcap'
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BagSourceError, match=f'bag.mcap {complaint}'):
        BagSource(file)


def test_bag_without_messages_is_refused(tmp_path):
    with pytest.raises(BagSourceError, match='is empty, expected at least one message'):
        BagSource(write(tmp_path / 'bag', []))


def test_cut_bag_is_refused_and_a_damaged_one_gives_what_comes_before(tmp_path):
    whole = (write(tmp_path / 'bag', range(1, 40_000)) / 'bag.mcap').read_bytes()
    cut = tmp_path / 'cut.mcap'
    cut.write_bytes(whole[:len(whole) // 2])
    with pytest.raises(BagSourceError, match='may be cut off or no bag'):
        BagSource(cut)
    damaged = tmp_path / 'damaged.mcap'
    damaged.write_bytes(whole[:1_200_000] + bytes(400_000) + whole[1_600_000:])
    source, read = BagSource(damaged), []
    with pytest.raises(BagSourceError, match='is damaged: it lists 39999 messages, [0-9]+ could be read'):
        for message in source.messages({'/word'}):
            read.append(message)
    assert 10_000 < len(read) < 39_999


def test_damage_that_rosbags_does_not_expect_ends_the_reading_too(tmp_path):
    whole = (write(tmp_path / 'bag', range(1, 21), padding='\xe9' * 130_000) / 'bag.mcap').read_bytes()
    damaged = tmp_path / 'damaged.mcap'
    damaged.write_bytes(whole[:1_200_000] + bytes(400_000) + whole[1_600_000:])
    with pytest.raises(BagSourceError, match='damaged.mcap is damaged: .*too large'):
        list(BagSource(damaged).messages({'/word'}))


@pytest.mark.filterwarnings('ignore::pytest.PytestUnhandledThreadExceptionWarning')
def test_whoever_waits_is_told_however_the_reading_thread_ends(tmp_path, monkeypatch):
    class DecoderError(Exception):
        """As those of zstd and sqlite, which have no common root."""

    def messages(connections):
        raise DecoderError('not a frame')

    source = BagSource(write(tmp_path / 'bag', [1, 2]))
    monkeypatch.setattr(source._reader, 'messages', messages)
    with pytest.raises(BagSourceError, match='could not be read to its end'):
        list(source.messages({'/word'}))
