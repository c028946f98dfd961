from __future__ import annotations

import pytest

from deadline_perception.nodes.bag_types import MessageTypeError, message_class


@pytest.mark.parametrize('wrong', ['none_msgs/msg/None', 'sensor_msgs/msg/Nothing', 'Image', ''])
def test_type_that_is_not_installed_is_named(wrong):
    with pytest.raises(MessageTypeError, match=f'message type {wrong} is not installed'):
        message_class(wrong)
