import pytest
from made_up_labels import found
from plain_images import grey
from read_sequences import classes_of, crowd_of, frame_names

from deadline_perception.extras.data.joined_sequence import joined
from deadline_perception.extras.data.records import Frame, GroundTruth, Sequence
from deadline_perception.extras.evaluation.average_precision import average_precision


def sequence(name: str, class_names: tuple[str, ...], *labels: int, stamps: int = 2) -> Sequence:
    boxes = [[10.0 * number, 0.0, 10.0 * number + 8.0, 8.0] for number in range(len(labels))]
    known = GroundTruth(boxes, labels, [False] * len(labels))
    frames = [
        Frame(f'{number}', 1000 * number, lambda: grey(8, 8), None, known)
        for number in range(stamps)
    ]
    return Sequence(name, class_names, tuple(frames))


def test_classes_are_those_of_all_and_stamps_ascend():
    both = joined(
        [sequence('town', ('car', 'light'), 0, 1), sequence('drive', ('person', 'car'), 0, 1)],
        ('car', 'light', 'person'),
    )
    assert both.class_names == ('car', 'light', 'person')
    assert both.name == 'town + drive'
    assert len(both.frames) == 4
    assert classes_of(both) == ['car', 'light', 'person']
    assert classes_of(both, 2) == ['person', 'car', 'light']
    assert crowd_of(both) == crowd_of(both, 2) == [False, False, True]
    assert len(set(frame_names(both))) == 4


def test_one_sequence_stays_as_it_is():
    alone = sequence('town', ('car',), 0)
    assert joined([alone], ('car',)) is alone


@pytest.mark.parametrize('false_alarm_in, is_one', [(0, False), (1, True)])
def test_a_person_found_where_persons_are_not_named_is_no_false_alarm(false_alarm_in, is_one):
    names = ('car', 'person')
    both = joined([sequence('town', ('car',), 0, stamps=1), sequence('drive', names, 1)], names)
    right = [0.0, 0.0, 8.0, 8.0, 0.5, 1]
    wrong = [40.0, 40.0, 60.0, 60.0, 0.9, 1]
    images = [
        found(*[wrong] * (number == false_alarm_in), *[right] * (number > 0))
        for number in range(len(both.frames))
    ]
    known = [frame.ground_truth for frame in both.frames]
    ap = average_precision(images, known, both.class_names).per_class['person'].ap
    assert ap < 0.9 if is_one else ap == pytest.approx(1.0)
