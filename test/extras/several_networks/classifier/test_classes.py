from deadline_perception.extras.rendered_drive.drive import CLASS_NAMES as DETECTED
from deadline_perception.extras.rendered_drive.drive import LIGHT_NAMES
from deadline_perception.extras.rendered_drive.street_furniture import SIGN_NAMES
from deadline_perception.extras.several_networks.classifier.classes import (
    BACKGROUND,
    CLASS_NAMES,
    LAMPS,
    REFINED,
    ROAD_USERS,
    SIGN_FACES,
    possible_classes,
)


def test_every_class_of_the_detector_sign_and_lamp_is_named_once():
    assert [possible_classes(name) for name in ROAD_USERS] == [(name,) for name in ROAD_USERS]
    assert set(DETECTED) == {*ROAD_USERS, *REFINED}
    count = 1 + len(ROAD_USERS) + sum(map(len, REFINED.values()))
    assert len(set(CLASS_NAMES)) == len(CLASS_NAMES) == count
    assert CLASS_NAMES[0] == BACKGROUND
    assert set(SIGN_NAMES) <= set(SIGN_FACES.values())
    assert set(LIGHT_NAMES) == set(LAMPS.values())
