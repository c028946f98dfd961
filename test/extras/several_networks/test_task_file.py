import pytest

from deadline_perception.extras.several_networks.task_file import (
    TaskFileError,
    TaskRequest,
    read_tasks,
)


def test_reads_tasks_with_their_defaults(tmp_path):
    file = tmp_path / 'tasks.yaml'
    file.write_text("""
tasks:
  front: {model: compact, image_topic: camera/front, periods_ms: [100, 200.5], levels: 4, weight: 2}
  rear: {model: compact, periods_ms: [300], levels: [a, b], quality: some.json, distance_m: 12}
""")
    front, rear = read_tasks(file)
    settings = {'levels': 4, 'weight': 2.0}
    assert front == TaskRequest('front', 'compact', (100.0, 200.5), 'camera/front', **settings)
    settings = {'levels': ('a', 'b'), 'quality': 'some.json', 'distance_m': 12.0}
    assert rear == TaskRequest('rear', 'compact', (300.0,), **settings)


@pytest.mark.parametrize(
    'text, words',
    [
        ('', 'holds no task'),
        ('tasks: {a: {model: x}}', 'missing required field periods_ms'),
        ('tasks: {a: {model: x, periods_ms: [1], perod: 3}}', "task 'a' has 'perod'"),
        ('tasks: {a: {model: x, periods_ms: [0]}}', 'expected 1 to 256 times'),
        ('tasks: {a: {model: x, periods_ms: [yes]}}', 'periods_ms[0] is True, expected float, got'),
        ('tasks: {a: 5}', "task 'a' is 5, expected object"),
        ('tasks: {a: {model: x, periods_ms: [1], weight: 0}}', 'weight is 0.0'),
        ('tasks: {a: {model: x, periods_ms: [1], crops_of: b}}', 'crops_of of task a'),
        ('tasks: {a: {model: x, periods_ms: [1], crops_of: a}}', 'another task that takes whole'),
        ('tasks: {a: {model: x, periods_ms: [' + '9' * 400 + ']}}', 'a number of 400 characters'),
        ('tasks: {a: {model: x, periods_ms: [1], levels: 1000000000000}}', 'expected a number'),
        ('tasks: {a: {model: x, periods_ms: [1], image_topic: "${HOME}"}}', 'expected the name'),
        (
            'tasks: {a: {model: x, periods_ms: [1]}, a: {model: y, periods_ms: [1]}}',
            "is the key 'a' again",
        ),
        ('tasks: {schedule: {model: x, periods_ms: [1]}}', 'other than schedule and jobs'),
        ('tasks: {stra\u00dfe: {model: x, periods_ms: [1]}}', 'which begins with a letter'),
        ('tasks: {"\\e[31m": {model: x, periods_ms: [1]}}', r"name is '\x1b[31m'"),
        ('tasks: {a: {"\\e[31m": x}}', r"task 'a' is {'\x1b[31m': 'x', 'name': 'a'}, object"),
        ('a: &a [x, x]\ntasks: {a: {model: *a, periods_ms: *a}}', 'is an alias or an anchor'),
        (
            'tasks: {' + ', '.join(f'a{n}: {{model: x, periods_ms: [1]}}' for n in range(65)) + '}',
            'holds 65 tasks',
        ),
    ],
)
def test_says_what_is_wrong(tmp_path, text, words):
    file = tmp_path / 'tasks.yaml'
    file.write_text(text)
    with pytest.raises(TaskFileError, match='task') as caught:
        read_tasks(file)
    assert words in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 800
