"""Times of all segments from those of some."""

import math
import random
from itertools import product

import pytest
from segment_prediction import predict_times
from segment_work import SegmentWork

WORK = {}
for (kind, scale), place, width in product(
    (('stage', 3.0), ('head', 1.0)), range(1, 6), range(1, 4)
):
    amounts = scale * place * width * 1e6, scale * place * 1e4, width * 1e4
    WORK[f'{kind}{place}@w{width}'] = SegmentWork(*amounts, 4.0)


def _times(work: SegmentWork, factor: float = 1.0) -> float:
    return factor * (1e-6 * work.operations + 2e-5 * work.load_bytes + 0.05)


def test_finds_times_that_are_linear_in_the_work() -> None:
    chosen = random.Random(1).sample(sorted(WORK), 15)
    found = predict_times(WORK, {key: _times(WORK[key]) for key in chosen})
    assert found == pytest.approx({key: _times(work) for key, work in WORK.items()}, rel=0.1)


def test_what_was_measured_stays_as_it_is() -> None:
    found = predict_times(WORK, {'stage1@w1': 123.0})
    assert found['stage1@w1'] == 123.0 and all(0.0 < value < math.inf for value in found.values())


def test_a_kind_may_take_longer_for_the_same_work() -> None:
    slow = {key: 4.0 if key.startswith('head') else 1.0 for key in WORK}
    known = [key for key in WORK if key.endswith(('w1', 'w3'))]
    measured = {key: _times(WORK[key], slow[key]) for key in known}
    found = predict_times(WORK, measured)
    assert found['head4@w2'] == pytest.approx(_times(WORK['head4@w2'], 4.0), rel=0.1)


def test_another_device_tells_what_work_does_not() -> None:
    odd = {key: _times(work) * random.Random(key).uniform(1.0, 6.0) for key, work in WORK.items()}
    measured = {key: 2.0 * odd[key] for key in random.Random(3).sample(sorted(odd), 8)}
    with_it = predict_times(WORK, measured, reference_ms=odd)
    without = predict_times(WORK, measured)

    def error(found: dict[str, float]) -> float:
        return sum(abs(found[key] / (2.0 * odd[key]) - 1.0) for key in odd) / len(odd)

    assert error(with_it) < 0.5 * error(without)
