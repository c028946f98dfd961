from __future__ import annotations

import pytest
from rosbags.typesys import Stores, get_typestore

from deadline_perception.msg import PathDecision
from deadline_perception.nodes.bag_types import MessageTypeError, define, message_class


def test_class_of_a_type_name():
    assert message_class('deadline_perception/msg/PathDecision') is PathDecision


@pytest.mark.parametrize('wrong', ['none_msgs/msg/None', 'sensor_msgs/msg/Nothing', 'Image', ''])
def test_type_that_is_not_installed_is_named(wrong):
    with pytest.raises(MessageTypeError, match=f'message type {wrong} is not installed'):
        message_class(wrong)


def test_definition_is_read_from_the_installed_package_with_all_that_it_is_made_of():
    store = get_typestore(Stores.EMPTY)
    define(store, 'deadline_perception/msg/PathDecision')
    text, _ = store.generate_msgdef('deadline_perception/msg/PathDecision', ros_version=2)
    assert 'OperatorDecision[] operators' in text
    assert 'MSG: std_msgs/Header' in text and 'MSG: builtin_interfaces/Time' in text


def test_known_definition_is_left_alone():
    store = get_typestore(Stores.ROS2_HUMBLE)
    before = store.fielddefs['sensor_msgs/msg/Image']
    define(store, 'sensor_msgs/msg/Image')
    assert store.fielddefs['sensor_msgs/msg/Image'] is before


def test_unknown_package_is_named():
    with pytest.raises(MessageTypeError, match='definition of none_msgs/msg/None is not found: no package none_msgs'):
        define(get_typestore(Stores.EMPTY), 'none_msgs/msg/None')
