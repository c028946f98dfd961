from __future__ import annotations

import pytest
from rclpy.serialization import serialize_message
from std_msgs.msg import String

from deadline_perception.datasets.message_definitions import message_types
from deadline_perception.nodes.bag_source import BagSource
from deadline_perception.nodes.bag_writer import BagWriter, RecordingFailed

STRING = 'std_msgs/msg/String'


def raw(text):
    return serialize_message(String(data=text))


def content(file):
    source = BagSource(file)
    read = list(source.messages({topic.name for topic in source.topics}))
    source.close()
    return read


@pytest.mark.parametrize('name', ['bag.mcap', 'bag'])
def test_messages_come_back_as_they_were_from_file_and_folder(tmp_path, name):
    writer = BagWriter(tmp_path / name, message_types())
    writer.add_topic('/a', STRING)
    writer.add_topic('/b', STRING)
    for number in range(50):
        writer.put('/ab'[0] + 'ab'[number % 2], 1000 + number, raw(f'word {number}'))
    writer.close()
    assert writer.written == {'/a': 25, '/b': 25}
    assert content(tmp_path / name) == [('/' + 'ab'[n % 2], STRING, 1000 + n, raw(f'word {n}')) for n in range(50)]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [name]


def test_nothing_is_overwritten(tmp_path):
    file = tmp_path / 'bag.mcap'
    file.write_text('precious')
    with pytest.raises(RecordingFailed, match='exists already, expected a new name'):
        BagWriter(file, message_types())
    assert file.read_text() == 'precious'


def test_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(RecordingFailed, match='cannot be written: Not a directory'):
        BagWriter(tmp_path / 'file' / 'bag.mcap', message_types())


def test_what_was_not_written_is_counted_and_the_rest_is_kept(tmp_path):
    writer = BagWriter(tmp_path / 'bag.mcap', message_types())
    writer.add_topic('/a', STRING)
    writer.put('/a', 1, raw('kept'))
    writer.put('/never_announced', 2, raw('lost'))
    writer.put('/a', 3, raw('kept too'))
    with pytest.raises(RecordingFailed, match='lacks 1 messages: /never_announced'):
        writer.close()
    assert [time_ns for _, _, time_ns, _ in content(tmp_path / 'bag.mcap')] == [1, 3]
