import threading

import pytest
from full_disk import full_disk
from mcap.writer import Writer
from rclpy.serialization import serialize_message
from std_msgs.msg import String
from waiting import wait

from deadline_perception.extras.data.bag_file import BagFile
from deadline_perception.extras.data.message_definitions import message_types
from deadline_perception.nodes.bag_writer import MOST_WAITING_BYTES, BagWriter, RecordingFailed

STRING = 'std_msgs/msg/String'


@pytest.fixture
def writer(tmp_path):
    writer = BagWriter(tmp_path / 'bag.mcap', message_types())
    writer.add_topic('/a', STRING)
    return writer


def raw(text):
    return serialize_message(String(data=text))


def content(file):
    bag = BagFile(file)
    read = list(bag.messages({topic.name for topic in bag.topics}))
    bag.close()
    return read


def test_messages_come_back_as_they_were(tmp_path):
    file = tmp_path / 'new' / 'bag.mcap'
    writer = BagWriter(file, message_types())
    writer.add_topic('/a', STRING)
    writer.add_topic('/b', STRING)
    for number in range(50):
        writer.put('/' + 'ab'[number % 2], 1000 + number, raw(f'word {number}'))
    writer.close()
    assert writer.written == {'/a': 25, '/b': 25}
    words = [raw(f'word {number}') for number in range(50)]
    assert content(file) == [('/' + 'ab'[n % 2], STRING, 1000 + n, words[n]) for n in range(50)]
    assert [entry.name for entry in file.parent.iterdir()] == ['bag.mcap']


def test_nothing_is_overwritten_and_only_mcap_is_written(tmp_path):
    file = tmp_path / 'bag.mcap'
    file.write_text('precious')
    with pytest.raises(RecordingFailed, match='bag.mcap exists already, expected a new name'):
        BagWriter(file, message_types())
    assert file.read_text() == 'precious'
    with pytest.raises(RecordingFailed, match='expected a name that ends with .mcap'):
        BagWriter(tmp_path / 'bag', message_types())
    with pytest.raises(RecordingFailed, match='cannot be written: Not a directory|exists already'):
        BagWriter(file / 'bag.mcap', message_types())


def test_when_there_is_no_more_room_the_rest_is_counted_and_what_was_written_can_be_read(
    writer, tmp_path
):
    """A limit on the size of files stands in for a full disk."""
    with full_disk(3_000_000):
        for number in range(100):
            writer.put('/a', number, raw('x' * 100_000))
        with pytest.raises(RecordingFailed, match='lacks [0-9]+ messages: .*File too large'):
            writer.close()
    assert writer.dropped >= 60
    assert [time_ns for _, _, time_ns, _ in content(tmp_path / 'bag.mcap')] == list(range(22))


def test_while_the_disk_takes_nothing_a_bounded_number_of_bytes_waits(
    writer, tmp_path, monkeypatch
):
    takes_again = threading.Event()
    write = Writer.add_message

    def write_later(self, *arguments, **named):
        takes_again.wait()
        write(self, *arguments, **named)

    monkeypatch.setattr(Writer, 'add_message', write_later)
    text = 'x' * 2**20
    for number in range(100):
        writer.put('/a', number, raw(text))
    fitting = MOST_WAITING_BYTES // (len(raw(text)) + 256)
    lacking = 100 - fitting
    assert 0 < fitting < 64 and writer.dropped == lacking
    takes_again.set()
    wait(lambda: writer.written['/a'] == fitting)
    writer.put('/a', 100, raw('late'))  # there is room again
    with pytest.raises(RecordingFailed, match=f'lacks {lacking} messages: the disk took less'):
        writer.close()
    assert [time_ns for _, _, time_ns, _ in content(tmp_path / 'bag.mcap')] == [
        *range(fitting),
        100,
    ]


def test_a_thread_that_could_not_begin_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(BagWriter, '_run', lambda self: None)  # as without memory
    writer = BagWriter(tmp_path / 'bag.mcap', message_types())
    writer.put('/a', 1, raw('a'))
    with pytest.raises(RecordingFailed, match='lacks 1 messages: the thread that writes has ended'):
        writer.close()
