import numpy as np
import pytest

from deadline_perception.extras.rendered_drive import street_furniture


@pytest.mark.parametrize('colour', street_furniture.LIT)
def test_one_lamp_of_a_traffic_light_shines(colour):
    shape = street_furniture.traffic_light(colour, (20, 20, 20), backplate=True)
    level = {'green': 0.19, 'yellow': 0.525, 'red': 0.86}[colour]
    assert shape.centres[~shape.lit][:, 2] == pytest.approx([level, level])


@pytest.mark.parametrize('name', street_furniture.SIGN_NAMES)
def test_signs_fill_their_sprite(name):
    alpha = street_furniture.sign_sprite(name)[..., 3] > 127
    rows, columns = np.flatnonzero(alpha.any(1)), np.flatnonzero(alpha.any(0))
    assert rows[0] <= 8 and rows[-1] >= 120 and columns[0] <= 6 and columns[-1] >= 120


def test_signs_differ():
    faces = [street_furniture.sign_sprite(name).tobytes() for name in street_furniture.SIGN_NAMES]
    assert len(set(faces)) == len(faces)
