from __future__ import annotations

import numpy as np
import pytest

from deadline_perception.extras.rendered_drive import street_furniture


def test_buildings_stay_behind_their_front():
    rng = np.random.default_rng(4)
    for shape in (street_furniture.building(rng, 12, 9, 4), street_furniture.house(rng, 12, 9)):
        assert shape.outline[:, 1].max() <= 0.36
        assert shape.outline[:, 2].min() == 0
    assert street_furniture.wall(rng, 6).outline[:, 0].max() == 3


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


@pytest.mark.parametrize('kind', ['broadleaf', 'conifer', 'poplar', 'autumn'])
def test_trees_reach_from_the_ground_and_are_premultiplied(kind):
    sprite = street_furniture.tree_sprite(np.random.default_rng(1), kind)
    assert sprite[-1, :, 3].any() and sprite[:60, :, 3].any()
    assert not sprite[sprite[..., 3] == 0].any()


def test_poles_and_lamps_reach_over_the_road():
    assert street_furniture.pole(6, 4, 0.1).outline[:, 1].max() == pytest.approx(4.08)
    assert street_furniture.lamp_post(8, 2).outline[:, 2].max() == pytest.approx(8.52)
