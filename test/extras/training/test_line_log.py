import fcntl

import pytest

from deadline_perception.extras.training.line_log import LogInUse, named_errors, open_lines


def test_what_follows_a_line_that_is_not_kept_is_dropped(tmp_path):
    file = tmp_path / 'run/log'
    with open_lines(file, lambda line: True) as stream:
        stream.write(b'1\n2\n3\n4')
    with open_lines(file, lambda line: int(line) < 3) as stream:
        stream.write(b'x\n')
    assert file.read_bytes() == b'1\n2\nx\n'


def test_one_run_at_a_time_writes(tmp_path):
    """Of a second one, the lines of the first would be read as those of other images."""
    file = tmp_path / 'log'
    with open_lines(file, lambda line: True) as stream:
        stream.write(b'1\n')
        stream.flush()
        with pytest.raises(LogInUse, match='log is being written by another run'):
            open_lines(file, lambda line: False)
    assert file.read_bytes() == b'1\n'
    open_lines(file, lambda line: True).close()


def test_a_log_that_is_removed_before_it_is_locked_is_not_written(tmp_path, monkeypatch):
    file = tmp_path / 'log'
    monkeypatch.setattr(fcntl, 'flock', lambda stream, how: file.unlink())
    with pytest.raises(LogInUse):
        open_lines(file, lambda line: True)


def test_errors_of_an_open_file_name_it(tmp_path):
    with (
        open('/dev/full', 'wb', buffering=0) as full,
        pytest.raises(OSError, match='No space left.*log') as told,
    ):
        with named_errors(tmp_path / 'log'):
            full.write(b'1')
    assert told.value.filename == str(tmp_path / 'log')
