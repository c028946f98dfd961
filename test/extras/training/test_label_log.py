import json

import pytest

from deadline_perception.core.detections import Detections
from deadline_perception.extras.training.label_log import LabelLog, LabelLogError, SeenImage

SEEN = SeenImage((90, 60), (Detections([[1.25, 2, 30, 40]], [0.75], [2]), Detections.none()))


def opened(folder, facts=('a', 'b')):
    return LabelLog(folder / 'labels.json.partial', facts)


@pytest.mark.parametrize('cut', range(1, 60, 7))
def test_a_cut_last_line_is_dropped(tmp_path, cut):
    log = opened(tmp_path)
    log.add(SEEN)
    log.add(SEEN)
    log.close()
    whole = log.file.read_bytes()
    log.file.write_bytes(whole[:-cut])
    again = opened(tmp_path)
    assert again.count == 1
    again.add(SEEN)
    assert log.file.read_bytes() == whole


@pytest.mark.parametrize(
    'line',
    [
        '{"size": [1, 1]}',
        '[]',
        'x',
        json.dumps({'size': [1, 1], 'found': [[[1, 2]]]}),
        '{"size": ["a", 1], "found": []}',
        '{"size": [1], "found": []}',
        '[' * 100_000,
        '{"size": [1, 1], "found": ' + '[' * 500 + ']' * 500 + '}',
        f'{{"size": [{"9" * 5000}, 1], "found": []}}',
    ],
)
def test_a_damaged_line_is_named(tmp_path, line):
    log = opened(tmp_path)
    log.close()
    with log.file.open('a') as stream:
        stream.write(line + '\n')
    with pytest.raises(LabelLogError, match='line 2 of .* is damaged'):
        list(opened(tmp_path))
