import pytest

from deadline_perception.extras.training.line_log import LogInUse, open_lines


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
