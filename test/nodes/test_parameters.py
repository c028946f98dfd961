import math

import pytest
from rclpy.parameter import Parameter as RosParameter

from deadline_perception.nodes.parameters import (
    Parameter,
    ParameterError,
    declare,
    unknown_names,
    validate,
)

TABLE = (
    Parameter('rate_hz', 10.0, 'How often.', 'Hz', 0.1, 100.0),
    Parameter('count', 3, 'How many.', '', 1, 100),
    Parameter('policy', 'table', 'Which.', choices=('table', 'distance')),
    Parameter('speeds_mps', [1.0, 2.0], 'Speeds.', 'm/s', 0.0, 200.0),
    Parameter('is_on', True, 'Whether.'),
    Parameter('file', '', 'Where.', read_only=True),
)


@pytest.mark.parametrize(
    ('given', 'match'),
    [
        ({'rate_hz': 500.0}, r'rate_hz is 500.0 Hz, expected \[0.1, 100\] Hz'),
        ({'rate_hz': math.nan}, r'rate_hz is nan Hz, expected \[0.1, 100\] Hz'),
        ({'rate_hz': 'fast'}, r"rate_hz is 'fast', expected a decimal number"),
        ({'rate_hz': 0.0, 'count': 0}, r'rate_hz is 0.0.*; count is 0, expected \[1, 100\]'),
        ({'count': 2.5}, r'count is 2.5, expected a whole number'),
        ({'count': True}, r'count is True, expected a whole number'),
        ({'policy': 'magic'}, r"policy is 'magic', expected one of table, distance"),
        ({'speeds_mps': [1.0, -2.0]}, r'speeds_mps is \[1.0, -2.0\] m/s, expected \[0, 200\] m/s'),
        ({'speeds_mps': [math.inf]}, r'speeds_mps is \[inf\] m/s'),
        ({'speeds_mps': 3.0}, r'speeds_mps is 3.0, expected a list'),
        ({'is_on': 1}, r'is_on is 1, expected true or false'),
        ({'file': 7}, r'file is 7, expected a text'),
    ],
)
def test_illegal_value_is_named_with_what_was_expected(given, match):
    with pytest.raises(ParameterError, match=match):
        validate(TABLE, given)


def given(**values):
    return [RosParameter(name, value=value) for name, value in values.items()]


def fits(values):
    if values['policy'] == 'distance' and values['count'] < 5:
        raise ValueError(f'count is {values["count"]}, expected at least 5 for policy distance')


def test_declared_values_are_live_a_snapshot_is_not_and_illegal_changes_are_rejected(make_node):
    node = make_node('under_test', parameter_overrides=given(rate_hz=20))
    values = declare(node, TABLE)
    before = values.snapshot()
    assert values['rate_hz'] == 20.0 and len(values) == 6
    assert node.set_parameters_atomically(given(rate_hz=30.0)).successful
    assert values['rate_hz'] == 30.0 and before['rate_hz'] == 20.0
    for name, value in (('rate_hz', math.nan), ('policy', 'magic'), ('file', 'other')):
        result = node.set_parameters(given(**{name: value}))[0]
        assert not result.successful and name in result.reason
    assert dict(values) == {**validate(TABLE, {}), 'rate_hz': 30.0}
    known = {'rate_hz': 1.0, 'use_sim_time': True, 'qos_overrides./x.depth': 1}
    assert unknown_names(TABLE, known) == []
    assert unknown_names(TABLE, {'rte_hz': 1.0}) == [
        'parameter rte_hz does not exist and has no effect, is rate_hz meant?'
    ]


def test_a_set_that_does_not_fit_together_is_rejected_as_a_whole_and_one_that_waits_says_so(
    make_node, monkeypatch
):
    node = make_node('under_test')
    values = declare(node, TABLE, fits)
    result = node.set_parameters_atomically(given(rate_hz=1.0, policy='distance'))
    assert not result.successful
    assert result.reason == 'count is 3, expected at least 5 for policy distance'
    assert values['rate_hz'] == 10.0 and node.get_parameter('rate_hz').value == 10.0
    result = node.set_parameters_atomically(given(count=5, policy='distance'))
    assert result.successful and values['policy'] == 'distance'
    other = make_node('under_test', parameter_overrides=given(policy='distance'))
    with pytest.raises(ParameterError, match='expected at least 5 for policy distance'):
        declare(other, TABLE, fits)
    node = make_node('under_test')
    waiting = Parameter('model', '', 'Which.', waits_for='configure')
    declare(node, (waiting, Parameter('rate_hz', 10.0, 'How often.')))
    said = []
    monkeypatch.setattr(type(node.get_logger()), 'info', lambda logger, words: said.append(words))
    for change in {'model': 'other'}, {'rate_hz': 5.0}:
        assert node.set_parameters_atomically(given(**change)).successful
    assert said == ['model takes force at the next configure']
