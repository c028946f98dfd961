import numpy as np
import pytest

from deadline_perception.core.detections import Detections
from deadline_perception.core.records import Frame, GroundTruth, Sequence
from deadline_perception.extras.data.joined_sequence import joined
from deadline_perception.extras.evaluation.average_precision import average_precision


def sequence(name: str, class_names: tuple[str, ...], *labels: int, stamps: int = 2) -> Sequence:
    boxes = np.array(
        [[10.0 * number, 0.0, 10.0 * number + 8.0, 8.0] for number in range(len(labels))],
        np.float32,
    )
    known = GroundTruth(boxes, np.array(labels, np.int64), np.zeros(len(labels), bool))
    return Sequence(
        name,
        class_names,
        tuple(
            Frame(
                f'{number}',
                1000 * number,
                lambda: np.zeros((8, 8, 3), np.uint8),
                ground_truth=known,
            )
            for number in range(stamps)
        ),
    )


def test_classes_are_those_of_all_and_stamps_ascend():
    both = joined(
        [sequence('town', ('car', 'light'), 0, 1), sequence('drive', ('person', 'car'), 0, 1)],
        ('car', 'light', 'person'),
    )
    assert both.class_names == ('car', 'light', 'person')
    assert both.name == 'town + drive'
    assert len(both.frames) == 4
    of_town, of_drive = both.frames[0].ground_truth, both.frames[2].ground_truth
    assert list(of_town.labels) == [0, 1, 2] and list(of_town.crowd) == [False, False, True]
    assert list(of_drive.labels) == [2, 0, 1] and list(of_drive.crowd) == [False, False, True]
    assert len({frame.name for frame in both.frames}) == 4


def test_one_sequence_stays_as_it_is():
    alone = sequence('town', ('car',), 0)
    assert joined([alone], ('car',)) is alone


@pytest.mark.parametrize(('false_alarm_in', 'is_one'), [(0, False), (1, True)])
def test_a_person_found_where_persons_are_not_named_is_no_false_alarm(false_alarm_in, is_one):
    both = joined(
        [
            sequence('town', ('car',), 0, stamps=1),
            sequence('drive', ('car', 'person'), 1, stamps=2),
        ],
        ('car', 'person'),
    )
    found = []
    for number in range(len(both.frames)):
        rows = [((40.0, 40.0, 60.0, 60.0), 0.9)] * (number == false_alarm_in)
        rows += [((0.0, 0.0, 8.0, 8.0), 0.5)] * (number > 0)
        found.append(
            Detections(
                np.array([box for box, _ in rows]),
                np.array([score for _, score in rows]),
                np.full(len(rows), both.class_names.index('person')),
            )
        )
    ap = (
        average_precision(found, [frame.ground_truth for frame in both.frames], both.class_names)
        .per_class['person']
        .ap
    )
    assert ap < 0.9 if is_one else ap == pytest.approx(1.0)
