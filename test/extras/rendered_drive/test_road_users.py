import pytest

from deadline_perception.extras.rendered_drive import road_users


def extent(shape):
    return (shape.outline.max(0) - shape.outline.min(0)).tolist()


@pytest.mark.parametrize('body', road_users.BODIES)
def test_cars_measure_what_their_table_says(body):
    length, width, height = road_users.BODIES[body][:3]
    assert extent(road_users.car(body, (10, 20, 200))) == pytest.approx(
        [length, width, height], abs=0.02
    )


def test_a_rider_makes_a_bike_taller():
    ridden, parked = (
        road_users.two_wheeler((9, 9, 9), (50, 60, 70), (80, 80, 80), motor=False, rider=rider)
        for rider in (True, False)
    )
    assert 1.6 < extent(ridden)[2] < 2.0 and extent(parked)[2] < 1.2
    assert extent(ridden)[0] == pytest.approx(1.74, abs=0.1)


@pytest.mark.parametrize('height', [1.5, 1.95])
def test_pedestrians_have_their_height_and_stride(height):
    standing, walking = (
        road_users.pedestrian((9, 9, 9), (8, 8, 8), (7, 7, 7), height, stride)
        for stride in (0.0, 1.0)
    )
    assert standing.outline[:, 2].max() == pytest.approx(height, abs=0.05)
    assert standing.outline[:, 2].min() == pytest.approx(0, abs=0.03)
    assert extent(walking)[0] > extent(standing)[0] + 0.4
