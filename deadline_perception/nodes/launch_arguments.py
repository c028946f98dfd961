"""The arguments of the launch files and of the start-up without ROS: one table, and the check of what is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rclpy.exceptions import NameValidationException
from rclpy.validate_namespace import validate_namespace
from rclpy.validate_topic_name import validate_topic_name

from deadline_perception.core.errors import DeadlinePerceptionError

Value = str | bool | float


class ArgumentError(DeadlinePerceptionError):
    """An argument has a value that no node could work with; the message is one line with what was expected."""


@dataclass(frozen=True)
class Argument:
    """One argument of the launch files and of the start-up without ROS.

    Attributes:
        name: in launch; on the command line with dashes. One that ends with `_topic` takes the name of a topic.
        default: text, truth value or number; what is given has the same type.
        description: one line.
        launch: also an argument of `perception.launch.py`.
        choices: legal texts; empty allows all.
        minimum: smallest legal number; of a text, which may be empty, it makes one.
        maximum: largest legal number.
    """

    name: str
    default: Value
    description: str
    launch: bool = True
    choices: tuple[str, ...] = ()
    minimum: float = 0.0
    maximum: float = 0.0

    def declaration(self) -> dict[str, object]:
        """The same as what launch's DeclareLaunchArgument takes."""
        return {
            'name': self.name,
            'default_value': as_text(self.default),
            'description': self.description,
            'choices': list(self.choices) or None,
        }

    def value_of(self, given: Value) -> Value:
        """A given text or value as the type of the argument.

        Raises:
            ArgumentError: it is no legal value.
        """
        problem = f'{self.name} is {given!r}, expected'
        if isinstance(self.default, bool):
            if str(given).lower() not in ('true', 'false'):
                raise ArgumentError(f'{problem} true or false')
            return str(given).lower() == 'true'
        if isinstance(self.default, float) or (self.maximum and given != ''):
            try:
                number = float(given)
            except ValueError:
                number = float('nan')
            if not self.minimum <= number <= self.maximum:
                raise ArgumentError(f'{problem} a number in [{self.minimum:g}, {self.maximum:g}]')
            return number
        if self.choices and given not in self.choices:
            shown = [choice or 'nothing' for choice in self.choices]
            raise ArgumentError(f'{problem} {", ".join(shown[:-1])} or {shown[-1]}')
        try:
            if self.name == 'namespace':
                validate_namespace(f'/{str(given).strip("/")}')
            elif self.name.endswith('_topic') and given:
                validate_topic_name(str(given))
        except NameValidationException as error:
            reason = str(error).partition('\n')[0].rstrip(':')
            raise ArgumentError(f'{problem} a name that ROS allows: {reason}') from error
        if self.name.endswith('_topic') and '//' in str(given):
            raise ArgumentError(f'{problem} a name that ROS allows: single slashes')
        return given


ARGUMENTS = (
    Argument('namespace', '', 'namespace of all nodes, such as /front'),
    Argument('use_sim_time', False, 'take the time from /clock'),
    Argument('params_file', '', 'parameter file that overrides those of config/'),
    Argument(
        'image_topic',
        'camera/image_raw',
        'camera images, without /compressed; as all topics, a name that does '
        'not begin with / lies in the namespace',
    ),
    Argument(
        'camera_info_topic', '', 'calibration of the camera; empty: camera_info beside the images'
    ),
    Argument('odometry_topic', 'odom', 'speed of the vehicle as nav_msgs/Odometry'),
    Argument('speed_topic', 'vehicle/speed', 'speed of the vehicle as geometry_msgs/TwistStamped'),
    Argument(
        'image_transport',
        '',
        'raw or compressed; empty: as in the parameter files, and of a replay as in the bag',
        choices=('', 'raw', 'compressed'),
    ),
    Argument(
        'source',
        '',
        'bring up camera_player, which plays this as image_topic: number of a webcam, video or folder of images',
    ),
    Argument(
        'budget_ms',
        '',
        'longest time for an image, in ms, whatever the speed; empty: it follows the speed',
        minimum=0.1,
        maximum=60000.0,
    ),
    Argument(
        'view', False, 'bring up live_view: the detector at work, in the browser (needs rerun-sdk)'
    ),
    Argument(
        'model',
        '',
        'weights (safetensors), the name of a shipped model, or a set of own models (set.yaml, see '
        'deadline-perception adopt); empty: as in config/detector.yaml',
    ),
    Argument('profile', '', "latency profile; empty: this device's own"),
    Argument(
        'device', '', 'processor of the network, cpu or cuda; empty: as in config/detector.yaml'
    ),
    Argument('autostart', True, 'lifecycle nodes configure and activate themselves'),
    Argument(
        'tasks',
        '',
        'task file: several networks, scheduled on one machine, in the place of the detector',
    ),
    Argument(
        'log_level', 'info', 'of all nodes', choices=('debug', 'info', 'warn', 'error', 'fatal')
    ),
    Argument('bag', '', 'bag to play; everything ends when it has been played', launch=False),
    Argument(
        'rate',
        1.0,
        'speed of the replay, from 0.01 to 100',
        launch=False,
        minimum=0.01,
        maximum=100.0,
    ),
    Argument(
        'camera',
        '',
        'image topic of the bag that is played as image_topic; empty: its only camera, or the only '
        'one in colour',
        launch=False,
    ),
    Argument(
        'record',
        '',
        'mcap file to record what the report needs to: all topics of the nodes but images, '
        'camera_info and ground truth',
        launch=False,
    ),
)


def as_text(value: object) -> str:
    """A parameter value as the ROS command line takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_values(given: Mapping[str, Value], pushed: str = '') -> dict[str, Value]:
    """What is given, such as launch's texts, checked and as the types of `ARGUMENTS`; the rest has its default.

    A namespace that does not begin with / lies in the one that whoever includes a launch file may have pushed.

    Raises:
        ArgumentError: a value is illegal.
    """
    values = {
        argument.name: argument.value_of(given.get(argument.name, argument.default))
        for argument in ARGUMENTS
    }
    if str(values['image_topic']).endswith('/compressed'):
        raise ArgumentError(
            f'image_topic is {values["image_topic"]!r}, expected the name without /compressed, and '
            f'image_transport compressed'
        )
    if pushed and not str(values['namespace']).startswith('/'):
        values['namespace'] = f'{pushed.rstrip("/")}/{values["namespace"]}'.rstrip('/')
    return values
