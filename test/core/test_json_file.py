import pytest

from deadline_perception.core.json_file import JsonFileError, read_object


def test_an_object_is_read(tmp_path):
    (tmp_path / 'state.json').write_text('{"frames": 3}')
    assert read_object(tmp_path / 'state.json', 'state') == {'frames': 3}


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        (b'{"half": ', 'cannot be read'),
        (b'\xff\xfe', 'cannot be read'),
        (b'[' * 100_000, 'cannot be read'),
        (b'{"frames": ' + b'9' * 5000 + b'}', 'cannot be read'),
        (b'[1, 2]', 'holds list'),
        (None, 'cannot be read'),
    ],
)
def test_anything_but_an_object_is_refused_by_name(tmp_path, content, message):
    file = tmp_path / 'state.json'
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(JsonFileError, match=f'state .*state.json {message}'):
        read_object(file, 'state')
