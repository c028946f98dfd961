import json

import pytest

from deadline_perception.extras.training.loss_log import open_log


def test_log_of_a_killed_run_goes_on_after_its_saved_step(tmp_path):
    file = tmp_path / 'run/state.jsonl'
    with open_log(file, 0) as log:
        for step in range(1, 6):
            log.add(step, {'objectness': 0.1 / step})
    with file.open('a') as lines:
        lines.write('{"step": 6, "objec')
    with open_log(file, 3) as log:
        log.add(4, {'objectness': 0.04, 'path1': 2.0})
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row['step'] for row in rows] == [1, 2, 3, 4]
    assert rows[-1] == {'step': 4, 'objectness': 0.04, 'path1': 2.0}


@pytest.mark.parametrize(
    'line',
    [
        'x',
        '[]',
        '{}',
        '{"step": "a"}',
        '{"step": 1, "path0": []}',
        '[' * 100_000,
        f'{{"step": {"9" * 5000}}}',
    ],
)
def test_a_damaged_log_is_named(tmp_path, line):
    (tmp_path / 'state.jsonl').write_text(f'{line}\n')
    with (
        pytest.raises(ValueError, match='state.jsonl is damaged, expected .* delete it'),
        open_log(tmp_path / 'state.jsonl', 1),
    ):
        pass
