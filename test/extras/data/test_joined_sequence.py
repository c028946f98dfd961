from plain_images import grey
from read_sequences import classes_of, crowd_of, frame_names

from deadline_perception.extras.data.joined_sequence import joined
from deadline_perception.extras.data.records import Frame, GroundTruth, Sequence


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
