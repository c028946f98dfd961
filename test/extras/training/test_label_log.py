import json

import numpy as np
import pytest

from deadline_perception.core.detections import Detections
from deadline_perception.extras.training.label_log import LabelLog, LabelLogError, SeenImage

SEEN = SeenImage((90, 60), (Detections([[1.25, 2, 30, 40]], [0.75], [2]), Detections.none()))
BROKEN = SeenImage((0, 0), (), 'b.jpg cannot be decoded')


def opened(folder, facts=('a', 'b')):
    return LabelLog(folder / 'labels.json.partial', facts)


def test_images_come_back_as_they_were(tmp_path):
    log = opened(tmp_path)
    log.add(SEEN)
    log.add(BROKEN)
    first, second = log
    assert (second.found, second.unreadable) == ((), BROKEN.unreadable)
    assert (first.size, first.unreadable) == ((90, 60), '')
    for mine, given in zip(first.found, SEEN.found, strict=True):
        for values, expected in zip(vars(mine).values(), vars(given).values()):
            np.testing.assert_allclose(values, expected)


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


def test_a_cut_first_line_begins_anew(tmp_path):
    opened(tmp_path).close()
    file = tmp_path / 'labels.json.partial'
    file.write_bytes(file.read_bytes()[:10])
    assert opened(tmp_path).count == 0
    assert opened(tmp_path).count == 0 and file.read_bytes().count(b'\n') == 1


def test_the_log_of_another_run_is_refused(tmp_path):
    opened(tmp_path).close()
    with pytest.raises(LabelLogError, match='was begun with other images, models or classes;'):
        opened(tmp_path, ('a', 'c'))
    (tmp_path / 'labels.json.partial').write_text('something else\n')
    with pytest.raises(LabelLogError, match='was begun with other images'):
        opened(tmp_path)


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
