"""The layouts for RViz and Foxglove show topics and fields that exist."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import yaml

from deadline_perception.nodes.bag_recorder import TOPICS
from deadline_perception.nodes.bag_types import message_class
from deadline_perception.nodes.bringup import RVIZ_REMAPS

TYPES = {f'/{topic.lstrip("/")}': msgtype for topic, msgtype in TOPICS.items()} | {
    '/path_visualizer/image': 'sensor_msgs/msg/Image',
    '/path_visualizer/markers': 'visualization_msgs/msg/MarkerArray',
}


def strings(value):
    if isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize('name', ['foxglove.json', 'perception.rviz'])
def test_every_topic_and_field_of_a_layout_exists(name, repository):
    text = (repository / 'config' / name).read_text()
    shown = [
        word
        for word in strings(json.loads(text) if name.endswith('json') else yaml.safe_load(text))
        if word.startswith('/')
    ]
    assert len(shown) >= 2
    for word in shown:
        topic, *fields = word.split('.')
        kind = message_class(TYPES[topic])
        for field in fields:
            name, filters = re.match(r'(\w+)(?:\[:\]\{(\w+)==.*\})?$', field).groups()
            if filters is None:
                getattr(kind(), name)
                kind = type(getattr(kind(), name))
            else:  # of the elements of a list, that with a certain value of a field
                element = re.fullmatch(
                    r'sequence<(\w+)/(\w+)(?:, \d+)?>', kind.get_fields_and_field_types()[name]
                )
                kind = message_class(f'{element[1]}/msg/{element[2]}')
                assert filters in kind.get_fields_and_field_types()


def test_every_foxglove_panel_is_placed_once(repository):
    layout = json.loads((repository / 'config' / 'foxglove.json').read_text())
    placed = [word for word in strings(layout['layout']) if '!' in word]
    assert sorted(placed) == sorted(layout['configById'])


def test_rviz_looks_along_the_camera_with_its_image_upright(repository):
    """The axes of the screen as RViz's orbit view computes them: it looks from a point on a sphere at its centre, and
    the z axis of the target frame, here that of the camera (x right, y down, z ahead), never leans to a side."""
    layout = yaml.safe_load((repository / 'config' / 'perception.rviz').read_text())
    view = layout['Visualization Manager']['Views']['Current']
    assert (
        view['Class'] == 'rviz_default_plugins/Orbit'
        and view['Target Frame'] == 'camera_optical_frame'
    )
    yaw, pitch = view['Yaw'], view['Pitch']
    ahead = -np.array([np.cos(yaw) * np.cos(pitch), np.sin(yaw) * np.cos(pitch), np.sin(pitch)])
    right = np.cross(ahead, (0.0, 0.0, 1.0))
    right /= np.linalg.norm(right)
    up = np.cross(right, ahead)
    np.testing.assert_allclose([right, up, ahead], [(1, 0, 0), (0, -1, 0), (0, 0, 1)], atol=1e-3)
    centre = np.array([view['Focal Point'][axis] for axis in 'XYZ'])
    assert (centre - view['Distance'] * ahead)[2] < 0.0  # behind the camera, which is the origin


def test_the_topics_that_rviz_takes_from_a_namespace_are_those_of_its_layout(repository):
    shown = [
        word
        for word in strings(yaml.safe_load((repository / 'config' / 'perception.rviz').read_text()))
        if word.startswith('/')
    ]
    assert sorted(shown) == sorted(topic for topic, _ in RVIZ_REMAPS)
