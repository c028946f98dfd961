import numpy as np
import pytest

from deadline_perception.extras.rendered_drive.shapes import ShapeBuilder


def test_faces_of_a_box_point_outwards():
    builder = ShapeBuilder()
    builder.frustum((-2, 2, 1, 0), (-1.5, 1.5, 0.8, 1.5), (10, 20, 30), aside_m=3.0)
    shape = builder.build()
    middle = shape.points.mean(0)
    assert middle[1] == pytest.approx(3.0)
    assert (((shape.centres - middle) * shape.normals).sum(1) > 0).all()
    assert np.linalg.norm(shape.normals, axis=1) == pytest.approx(np.ones(5))


def test_outline_holds_thickness_but_no_detail():
    builder = ShapeBuilder()
    builder.rod((0, 0, 0), (0, 0, 2), 0.1, (1, 1, 1))
    builder.ball((0, 0, 5), 0.5, (1, 1, 1), detail=True)
    builder.ring((0, 0, 1), 0.4, 0.05, (1, 1, 1))
    shape = builder.build()
    assert shape.outline[:, 2].max() == pytest.approx(2.1)
    assert shape.outline[:, 0].max() == pytest.approx(0.45)
    assert [element.kind for element in shape.elements] == ['rod', 'ball', 'ring']
