import pytest

from deadline_perception.nodes import bag_player, detector_parameters
from deadline_perception.nodes.launch_arguments import (
    ARGUMENTS,
    ArgumentError,
    as_text,
    read_values,
)

TABLE = {argument.name: argument for argument in ARGUMENTS}


@pytest.mark.parametrize(
    ('name', 'text', 'complaint'),
    [
        ('view', 'perhaps', 'expected true or false'),
        ('rate', '0', r'expected a number in \[0.01, 100\]'),
        ('rate', 'fast', 'expected a number'),
        ('image_transport', 'theora', 'expected nothing, raw or compressed'),
        ('log_level', 'bogus', 'warn, error or fatal'),
        ('image_topic', 'bad topic', 'a name that ROS allows: Invalid topic name'),
        ('camera_info_topic', 'a//b', 'single slashes'),
        ('namespace', 'bad name', 'a name that ROS allows'),
        ('image_topic', '/camera/image_raw/compressed', 'expected the name without /compressed'),
    ],
)
def test_what_no_node_could_work_with_is_refused_in_one_line(name, text, complaint):
    with pytest.raises(ArgumentError, match=complaint) as caught:
        read_values({name: text})
    assert str(caught.value).startswith(f'{name} is {text!r}') and '\n' not in str(caught.value)


def test_a_namespace_lies_in_the_one_that_was_pushed():
    for given, pushed, namespace in (
        ('', '/fleet', '/fleet'),
        ('front', '/fleet/', '/fleet/front'),
        ('/front', '/fleet', '/front'),
        ('x', '', 'x'),
    ):
        assert read_values({'namespace': given}, pushed)['namespace'] == namespace


def test_ranges_choices_and_defaults_are_legal_and_those_of_the_nodes():
    rate = next(row for row in bag_player.PARAMETERS if row.name == 'rate')
    assert (TABLE['rate'].minimum, TABLE['rate'].maximum) == (rate.minimum, rate.maximum)
    transport = next(row for row in detector_parameters.PARAMETERS if row.name == 'image_transport')
    assert TABLE['image_transport'].choices == ('', *transport.choices)
    for argument in ARGUMENTS:
        declared, text = argument.declaration(), as_text(argument.default)
        assert argument.value_of(text) == argument.default and declared['default_value'] == text
        assert declared['choices'] == (list(argument.choices) or None)
