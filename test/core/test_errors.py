import pytest

from deadline_perception.core.errors import command_line


@pytest.mark.parametrize(
    ('on_path', 'beside', 'prefix', 'program'),
    [
        (True, True, '/ws', 'deadline-perception'),
        (False, True, '/ws', "'{bin}/deadline-perception'"),  # in an environment not activated
        (False, False, '/ws', 'ros2 run deadline_perception deadline-perception'),
        (False, False, '', 'deadline-perception'),
    ],
)
def test_commands_in_errors_can_be_pasted(tmp_path, monkeypatch, on_path, beside, prefix, program):
    folder = tmp_path / 'my bin'
    folder.mkdir()
    if beside:
        (folder / 'deadline-perception').write_text('')
        (folder / 'deadline-perception').chmod(0o755)
    monkeypatch.setenv('PATH', str(folder) if on_path else '')
    monkeypatch.setenv('AMENT_PREFIX_PATH', prefix)
    monkeypatch.setattr('sys.executable', str(folder / 'python'))
    assert command_line('doctor') == f'{program.format(bin=folder)} doctor'
