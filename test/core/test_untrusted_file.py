"""Whatever lies at a path, it is read within its limits or refused in one printable line."""

import os
import socket
import threading

import pytest

from deadline_perception.core.errors import DeadlinePerceptionError, printable
from deadline_perception.core.untrusted_file import FileRefused, check_kind, parse_json, read_bytes


def test_what_is_no_ordinary_file_is_refused_before_it_is_opened_and_after(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / 'pipe')
    (tmp_path / 'link').symlink_to('/dev/zero')
    kinds = {'pipe': 'a pipe', 'link': 'a device', 'socket': 'a socket', '.': 'a folder'}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / 'socket'))
        for name, kind in kinds.items():
            with pytest.raises(FileRefused, match=f'it is no ordinary file but {kind}'):
                read_bytes(tmp_path / name, 100)
            with pytest.raises(FileRefused, match=kind):
                check_kind(tmp_path / name)
    # A pipe that took the place of a file in between.
    monkeypatch.setattr('deadline_perception.core.untrusted_file.check_kind', lambda file: None)
    with pytest.raises(FileRefused, match='but a pipe'):
        read_bytes(tmp_path / 'pipe', 100)


def test_a_file_is_read_up_to_its_limit(tmp_path):
    (tmp_path / 'file').write_bytes(b'12345')
    assert read_bytes(tmp_path / 'file', 5) == b'12345'
    with pytest.raises(FileRefused, match='it has 5 bytes, expected at most 4'):
        read_bytes(tmp_path / 'file', 4)
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / 'none', 4)


def test_a_file_that_is_rewritten_meanwhile_is_read_or_refused(tmp_path):
    file, ends = tmp_path / 'file', threading.Event()
    contents = {bytes([number]) * 200_000 for number in (1, 2)}

    def rewrite():
        while not ends.is_set():
            for content in contents:
                file.write_bytes(content)

    file.write_bytes(next(iter(contents)))
    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        for _ in range(200):
            try:
                assert len(read_bytes(file, 200_000)) <= 200_000  # as long as it was at that moment
            except FileRefused as error:
                assert 'written to while it was read' in str(error)
    finally:
        ends.set()
        writer.join()


@pytest.mark.parametrize(
    ('text', 'words'),
    [
        ('[' * 70 + ']' * 70, 'nested too deeply'),
        ('{"a": 1, "a": 2}', 'twice'),
        ('1' + '0' * 5000, 'a number of 5001 digits'),
        ('{"a": [9' + '9' * 40 + ']}', 'a number of 41 digits'),
        ('{', 'it is no JSON'),
        ('{"\x1b[31m": 1}', 'it is no JSON'),
    ],
)
def test_json_beyond_reason_is_refused(text, words):
    with pytest.raises(FileRefused, match='^[ -~]{1,400}$') as refused:
        parse_json(text)
    assert words in str(refused.value)


def test_controls_of_a_terminal_are_shown_as_they_are_written():
    assert printable('a\x1b[31m\x07b\u202ec\n d') == r'a\x1b[31m\x07b\u202ec d'
    error = DeadlinePerceptionError('it ends with:\n  \x1b]0;title\x07 Straße 2 µm')
    assert str(error) == 'it ends with:\n  \\x1b]0;title\\x07 Straße 2 µm'
