from __future__ import annotations

import json

import pytest

from deadline_perception.core.json_file import JsonFileError, read_object
from deadline_perception.core.replaced_file import replace_file


def test_writes_into_a_new_folder_and_reads_back(tmp_path):
    file = tmp_path / 'new' / 'state.json'
    replace_file(file, json.dumps({'frames': 3}))
    assert read_object(file, 'state') == {'frames': 3}
    assert [found.name for found in file.parent.iterdir()] == ['state.json']


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    file = tmp_path / 'state.json'
    replace_file(file, '{"old": 1}')
    with pytest.raises(UnicodeEncodeError):
        replace_file(file, '{"new": "\udc80"}')
    assert read_object(file, 'state') == {'old': 1}
    assert [found.name for found in tmp_path.iterdir()] == ['state.json']


@pytest.mark.parametrize(('content', 'message'), [(b'{"half": ', 'cannot be read'), (b'\xff\xfe', 'cannot be read'),
                                                  (b'[' * 100_000, 'cannot be read'),
                                                  (b'{"frames": ' + b'9' * 5000 + b'}', 'cannot be read'),
                                                  (b'[1, 2]', 'holds list')])
def test_anything_but_an_object_is_refused_by_name(tmp_path, content, message):
    file = tmp_path / 'state.json'
    file.write_bytes(content)
    with pytest.raises(JsonFileError, match=f'state .*{message}'):
        read_object(file, 'state')


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(JsonFileError, match='missing.json'):
        read_object(tmp_path / 'missing.json', 'state')
