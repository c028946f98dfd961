"""Declares a node's parameters from one table, and validates every change of them together with all the others."""

from __future__ import annotations

import difflib
import math
from collections import UserDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.node import Node

from deadline_perception.core.errors import DeadlinePerceptionError

Value = Any  # has the type of its row's default, which `validate` makes sure of
_FOREIGN = ('use_sim_time', 'start_type_description_service', 'qos_overrides.')  # rclpy's own


class ParameterError(DeadlinePerceptionError):
    """Parameters that a node cannot work with; the message names each value and what was expected."""


@dataclass(frozen=True)
class Parameter:
    """One row of a node's table of parameters.

    Attributes:
        name: as in the parameter file.
        default: value when none is given; its type is the parameter's type. A list of texts that may be empty is
            `['']`, for ROS cannot tell the type of an empty list.
        description: meaning in one sentence.
        unit: of the value, empty where it has none.
        minimum: smallest legal value, of numbers and of each number of a list; given where `maximum` is, and of
            all decimal numbers, for it also refuses NaN.
        maximum: largest legal value.
        choices: legal texts; empty allows all.
        read_only: cannot be changed once the node runs.
        waits_for: transition of a lifecycle node, or service, at which a change takes force, such as `activate`; empty:
            at once.
    """

    name: str
    default: bool | int | float | str | Sequence[float] | Sequence[str]
    description: str
    unit: str = ''
    minimum: float | None = None
    maximum: float = math.inf
    choices: tuple[str, ...] = ()
    read_only: bool = False
    waits_for: str = ''

    def __post_init__(self) -> None:
        if isinstance(self.default, tuple):
            object.__setattr__(self, 'default', list(self.default))

    @property
    def legal_range(self) -> str:
        """What is legal, in words."""
        if self.choices:
            return 'one of ' + ', '.join(self.choices)
        if self.minimum is None:
            return 'any value'
        return f'[{self.minimum:g}, {self.maximum:g}] {self.unit}'.rstrip()

    @property
    def _sample(self) -> Value:
        return self.default[0] if isinstance(self.default, list) else self.default

    def converted(self, value: Value) -> Value:
        """The value with whole numbers made decimal where the parameter is decimal; others as they are."""
        if not isinstance(value, (bool, int, float, str)) and hasattr(value, '__iter__'):
            return [self._converted_element(element) for element in value]
        return self._converted_element(value)

    def _converted_element(self, value: Value) -> Value:
        return float(value) if isinstance(self._sample, float) and type(value) is int else value

    def problem_with(self, value: Value) -> str:
        """What is wrong with a value, in one line; empty when it is legal."""
        is_list = isinstance(self.default, list)
        if isinstance(value, (list, tuple)) != is_list:
            return f'{self.name} is {value!r}, expected {"a list" if is_list else "a single value"}'
        for element in value if is_list else [value]:
            if type(element) is not type(self._sample):
                wanted = {
                    bool: 'true or false',
                    int: 'a whole number',
                    float: 'a decimal number',
                    str: 'a text',
                }
                return f'{self.name} is {value!r}, expected {wanted[type(self._sample)]}'
            is_outside = self.minimum is not None and not self.minimum <= element <= self.maximum
            if is_outside or (self.choices and element not in self.choices):
                shown = repr(value) if isinstance(element, str) else f'{value} {self.unit}'.rstrip()
                return f'{self.name} is {shown}, expected {self.legal_range}'
        return ''

    def descriptor(self) -> ParameterDescriptor:
        """What tools show of this parameter: meaning, unit, range."""
        text = self.description + (f' Unit: {self.unit}.' if self.unit else '')
        described = ParameterDescriptor(
            name=self.name,
            description=text,
            read_only=self.read_only,
            additional_constraints=self.legal_range,
        )
        if self.minimum is not None and type(self.default) is float:
            described.floating_point_range = [
                FloatingPointRange(from_value=float(self.minimum), to_value=float(self.maximum))
            ]
        if self.minimum is not None and type(self.default) is int:
            described.integer_range = [IntegerRange(from_value=self.minimum, to_value=self.maximum)]
        return described


class ParameterValues(UserDict[str, Value]):
    """The values in force, by name; every read sees the latest accepted change."""

    def snapshot(self) -> Mapping[str, Value]:
        """The set in force now, which later changes leave alone: they put another one in its place."""
        return self.data


def validate(table: Sequence[Parameter], given: Mapping[str, Value]) -> dict[str, Value]:
    """The defaults overlaid with the given values, all of them legal.

    Raises:
        ParameterError: values are illegal; the message names all of them, each with what was expected.
    """
    values = {}
    problems = []
    for row in table:
        value = row.converted(given.get(row.name, row.default))
        values[row.name] = value
        problems.append(row.problem_with(value))
    if any(problems):
        raise ParameterError('; '.join(filter(None, problems)))
    return values


def unknown_names(table: Sequence[Parameter], given: Mapping[str, object]) -> list[str]:
    """One line for each given name that no row has, with the nearest that exists."""
    names = [row.name for row in table]
    lines = []
    for name in given:
        if name in names or name.startswith(_FOREIGN):
            continue
        near = difflib.get_close_matches(name, names, n=1)
        lines.append(
            f'parameter {name} does not exist and has no effect'
            + (f', is {near[0]} meant?' if near else '')
        )
    return lines


def declare(
    node: Node,
    table: Sequence[Parameter],
    apply: Callable[[Mapping[str, Value]], object] = lambda values: None,
) -> ParameterValues:
    """Declares a table's parameters on a node and keeps watch over every later change.

    Args:
        node: the node; values from its command line and parameter files override the defaults.
        apply: called with the whole new set, at the start and before each change takes force; raises ValueError or
            `DeadlinePerceptionError` when values do not fit each other, which rejects the change.

    Raises:
        ParameterError: a value at the start is illegal, or the set is.
    """
    # rclpy tells the given values only one by one, as they are declared; the set must be known before that.
    given = {
        name: override.value for name, override in getattr(node, '_parameter_overrides', {}).items()
    }
    values = validate(table, given)
    _apply(apply, values)
    for line in unknown_names(table, given):
        node.get_logger().warning(line)
    for row in table:
        node.declare_parameter(row.name, values[row.name], row.descriptor(), ignore_override=True)
    in_force = ParameterValues(values)

    def on_set(changes: list[Any]) -> SetParametersResult:
        changed = {change.name: change.value for change in changes if change.name in in_force}
        if not changed:
            return SetParametersResult(successful=True)
        try:
            proposed = validate(table, {**in_force, **changed})
            _apply(apply, proposed)
        except ParameterError as error:
            return SetParametersResult(successful=False, reason=str(error))
        waiting = [
            f'{row.name} takes force at the next {row.waits_for}'
            for row in table
            if row.waits_for and proposed[row.name] != in_force[row.name]
        ]
        in_force.data = proposed
        if waiting:
            node.get_logger().info('; '.join(waiting))
        return SetParametersResult(successful=True)

    node.add_on_set_parameters_callback(on_set)
    return in_force


def _apply(apply: Callable[[Mapping[str, Value]], object], values: Mapping[str, Value]) -> None:
    try:
        apply(values)
    except (ValueError, DeadlinePerceptionError) as error:
        raise ParameterError(str(error)) from error
