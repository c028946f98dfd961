from __future__ import annotations

import pytest

from deadline_perception.runtime.task_file import TaskFileError, TaskRequest, read_tasks


def test_reads_tasks_with_their_defaults(tmp_path):
    file = tmp_path / 'tasks.yaml'
    file.write_text('''
tasks:
  front: {model: compact, image_topic: camera/front, periods_ms: [100, 200.5], levels: 4, weight: 2}
  rear: {model: compact, periods_ms: [300], levels: [a, b], quality: some.json, distance_m: 12}
''')
    front, rear = read_tasks(file)
    assert front == TaskRequest('front', 'compact', (100.0, 200.5), 'camera/front', levels=4, weight=2.0)
    assert rear == TaskRequest('rear', 'compact', (300.0,), levels=('a', 'b'), quality='some.json', distance_m=12.0)


@pytest.mark.parametrize(('text', 'words'), [
    ('', 'holds no task'), ('tasks: []', 'holds no task'), ('- 1', 'holds no task'), ('tasks: [', 'cannot be read'),
    ('tasks: {a: {model: x}}', 'lacks periods_ms'), ('tasks: {a: {model: x, periods_ms: [1], perod: 3}}',
                                                     'has perod beyond'),
    ('tasks: {a: {model: x, periods_ms: 5}}', 'expected a list of times'),
    ('tasks: {a: {model: x, periods_ms: []}}', 'at least one finite time'),
    ('tasks: {a: {model: x, periods_ms: [0]}}', 'at least one finite time above 0 ms'),
    ('tasks: {a: {model: x, periods_ms: [.nan]}}', 'finite time above 0 ms'),
    ('tasks: {a: {model: x, periods_ms: [yes]}}', 'periods_ms is True, expected a number'),
    ('tasks: {a: {model: x, periods_ms: [1], weight: 0}}', 'weight is 0.0'),
    ('tasks: {a: {model: x, periods_ms: [1], levels: 0}}', 'levels is 0'),
    ('tasks: {a: {model: x, periods_ms: [1], levels: [1, 2]}}', 'list of names of paths'),
    ('tasks: {a: {model: 5, periods_ms: [1]}}', 'model is 5, expected a text'),
    ('tasks: {a: {model: x, periods_ms: [1], crops_of: b}}', "crops_of of task a"),
    ('tasks: {a: {model: x, periods_ms: [1], crops_of: a}}', 'another task that takes whole images'),
    ('tasks: {a b: {model: x, periods_ms: [1]}}', "name is 'a b'"), ('tasks: {a: 5}', 'expected names and values')])
def test_says_what_is_wrong(tmp_path, text, words):
    file = tmp_path / 'tasks.yaml'
    file.write_text(text)
    with pytest.raises(TaskFileError, match='task') as caught:
        read_tasks(file)
    assert words in str(caught.value)


def test_says_where_no_file_is(tmp_path):
    with pytest.raises(TaskFileError, match='missing.yaml cannot be read'):
        read_tasks(tmp_path / 'missing.yaml')
