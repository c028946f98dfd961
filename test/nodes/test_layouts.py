import re

import pytest
import yaml

from deadline_perception.nodes.bag_recorder import TOPICS
from deadline_perception.nodes.bag_types import message_class

TYPES = {f'/{topic.lstrip("/")}': msgtype for topic, msgtype in TOPICS.items()} | {
    '/path_visualizer/image': 'sensor_msgs/msg/Image'
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
    shown = [word for word in strings(yaml.safe_load(text)) if word.startswith('/')]  # or JSON
    assert shown
    for word in shown:
        topic, *fields = word.split('.')
        kind = message_class(TYPES[topic])
        for field in fields:
            name, filters = re.match(r'(\w+)(?:\[:\]\{(\w+)==.*\})?$', field).groups()
            if filters is None:
                getattr(kind(), name)
                kind = type(getattr(kind(), name))
            else:  # of the elements of a list, that with a certain value of a field
                listed = kind.get_fields_and_field_types()[name]
                element = re.fullmatch(r'sequence<(\w+)/(\w+)(?:, \d+)?>', listed)
                kind = message_class(f'{element[1]}/msg/{element[2]}')
                assert filters in kind.get_fields_and_field_types()


def test_the_topic_that_rviz_takes_from_a_namespace_is_that_of_its_layout(repository):
    layout = yaml.safe_load((repository / 'config' / 'perception.rviz').read_text())
    (shown,) = {word for word in strings(layout) if word.startswith('/')}
    launched = (repository / 'launch' / 'perception.launch.py').read_text()
    assert f"('{shown}', '{shown[1:]}')" in launched
