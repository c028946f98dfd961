from __future__ import annotations

import math

import numpy as np
import pytest
from stamped_messages import header
from visualization_msgs.msg import Marker

from deadline_perception.core.detections import Detections
from deadline_perception.core.images.annotate import class_colour
from deadline_perception.nodes.markers import PinholeCamera, detection_markers

NAMES = ('vehicle', 'bike')


def test_markers_lie_where_the_camera_sees_the_box():
    camera = PinholeCamera((500.0, 500.0), (320.0, 190.0))
    found = Detections([(320, 190, 420, 240)], [0.5], [1])
    array = detection_markers(found, NAMES, header(5), camera, 'headline').markers
    assert array[0].action == Marker.DELETEALL
    frame = next(marker for marker in array if marker.ns == 'boxes')
    corners = [(0.0, 0.0), (1.0, 0.0), (1.0, 0.5), (0.0, 0.5), (0.0, 0.0)]
    assert [(p.x, p.y, p.z) for p in frame.points] == [(x, y, 5.0) for x, y in corners]
    blue, green, red = class_colour('bike')
    assert (frame.color.r, frame.color.g, frame.color.b) == pytest.approx(
        (red / 255, green / 255, blue / 255)
    )
    assert [marker.text for marker in array if marker.text] == ['bike 0.50', 'headline']
    assert all(marker.header == header(5) for marker in array)
    # Of a node that died, none stays.
    assert all(marker.lifetime.sec > 0 for marker in array if marker.action == Marker.ADD)


def test_camera_whose_points_would_not_be_finite_is_refused():
    for wrong in (0.0, 1e-300, math.inf, math.nan):
        with pytest.raises(ValueError, match=r'focal length is .*, expected \[1, 100000\] px'):
            PinholeCamera((wrong, 500.0), (320.0, 190.0))
    for wrong in (1e300, -math.inf, math.nan):
        with pytest.raises(ValueError, match='principal point is .*, expected at most 100000 px'):
            PinholeCamera((500.0, 500.0), (320.0, wrong))


def test_principal_point_lies_straight_ahead():
    camera = PinholeCamera((400.0, 800.0), (320.0, 190.0))
    np.testing.assert_allclose(
        camera.at_distance(np.array([(320.0, 190.0), (720.0, 990.0)]), 3.0),
        [(0.0, 0.0, 3.0), (3.0, 3.0, 3.0)],
    )
