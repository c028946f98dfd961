"""Which nodes there are, and which of their topics and parameters the arguments of a start-up set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deadline_perception.core.errors import DeadlinePerceptionError

Values = Mapping[str, object]  # of the arguments of a start-up, by name


class BringupError(DeadlinePerceptionError):
    """The nodes cannot be started as asked."""


@dataclass(frozen=True)
class NodeEntry:
    """One node.

    Attributes:
        name: of the node, its executable, its module in `nodes/` and its file in `config/`.
        remaps: topic of the node -> name of the argument that says what it is called outside.
        parameters: parameter of the node -> name of the argument that sets it, where that is not empty.
        lifecycle: has the lifecycle services.
        pinned_environment: must start with the environment of `core.device.process_environment`.
        wanted_by: of an optional node, name of the argument that brings it up when it is set.
        unless: name of the argument that leaves it out when it is set.
    """

    name: str
    remaps: tuple[tuple[str, str], ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()
    lifecycle: bool = False
    pinned_environment: bool = False
    wanted_by: str = ''
    unless: str = ''


def _same(*names: str) -> tuple[tuple[str, str], ...]:
    """Parameters that arguments of the same names set."""
    return tuple(zip(names, names))


_VEHICLE = (('odom', 'odometry_topic'), ('vehicle/speed', 'speed_topic'))
NODES = (  # started again when they end by themselves
    NodeEntry('vehicle_speed', remaps=_VEHICLE),
    NodeEntry('time_budget', unless='tasks', parameters=(('fixed_budget_ms', 'budget_ms'),)),
    NodeEntry(
        'contention_monitor',
        lifecycle=True,
        parameters=_same('device', 'autostart'),
    ),
    NodeEntry(
        'detector',
        remaps=(('image', 'image_topic'),),
        lifecycle=True,
        pinned_environment=True,
        unless='tasks',
        parameters=_same(
            'model',
            'profile',
            'device',
            'autostart',
            'image_transport',
        ),
    ),
    NodeEntry(
        'path_visualizer',
        remaps=(('image', 'image_topic'),),
        unless='tasks',
        parameters=_same('image_transport'),
    ),
)
OPTIONAL_NODES = (  # the same of those that an argument asks for
    NodeEntry(
        'qos_scheduler',
        lifecycle=True,
        pinned_environment=True,
        parameters=_same(
            'tasks',
            'autostart',
            'image_transport',
        ),
        wanted_by='tasks',
    ),
    NodeEntry(
        'camera_player',
        remaps=(('image', 'image_topic'),),
        parameters=_same('source'),
        wanted_by='source',
    ),
    NodeEntry(
        'live_view',
        remaps=(('image', 'image_topic'),),
        parameters=_same('image_transport'),
        wanted_by='view',
        unless='tasks',
    ),
)
# What a bag says of vehicle and camera, by absolute names, is played to where the nodes listen.
PLAYER = NodeEntry(
    'bag_player',
    remaps=tuple((f'/{topic}', argument) for topic, argument in _VEHICLE),
    parameters=_same(
        'bag',
        'rate',
        'camera',
        'image_topic',
        'camera_info_topic',
    ),
)
RECORDER = NodeEntry(
    'bag_recorder',
    remaps=(('camera/camera_info', 'camera_info_topic'),),
    parameters=(('output', 'record'),),
)


def node_parameters(entry: NodeEntry, values: Values) -> dict[str, object]:
    """The parameters that the arguments set."""
    return {'use_sim_time': values['use_sim_time']} | {
        parameter: value
        for parameter, argument in entry.parameters
        if (value := _value(values, argument)) != ''
    }


def node_remaps(entry: NodeEntry, values: Values) -> list[tuple[str, str]]:
    """The topics that the arguments rename."""
    return [
        (topic, str(outside))
        for topic, argument in entry.remaps
        if (outside := _value(values, argument)) != ''
    ]


def _value(values: Values, argument: str) -> object:
    if argument == 'camera_info_topic' and not values[argument]:  # beside the images
        return ''.join(str(values['image_topic']).rpartition('/')[:2]) + 'camera_info'
    return values[argument]
