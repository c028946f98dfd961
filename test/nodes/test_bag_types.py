from __future__ import annotations

import pytest

from deadline_perception.msg import PathDecision
from deadline_perception.nodes.bag_types import MessageTypeError, message_class


def test_class_of_a_type_name():
    assert message_class('deadline_perception/msg/PathDecision') is PathDecision


@pytest.mark.parametrize('wrong', ['none_msgs/msg/None', 'sensor_msgs/msg/Nothing', 'Image', ''])
def test_type_that_is_not_installed_is_named(wrong):
    with pytest.raises(MessageTypeError, match=f'message type {wrong} is not installed'):
        message_class(wrong)
