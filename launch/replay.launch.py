"""A bag through all nodes of `perception.launch.py`; everything ends when the bag has been played.

The status is 1 when the bag could not be played or recorded to the end: launch has it of an exception in an action.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    ExecuteProcess,
    IncludeLaunchDescription,
    OpaqueFunction,
    RegisterEventHandler,
    SetLaunchConfiguration,
    TimerAction,
)
from launch.event_handlers import OnProcessExit
from launch.events import Shutdown
from launch.events.process import ProcessExited
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration

from deadline_perception.nodes import bag_replay, bringup
from deadline_perception.nodes.launch_arguments import ARGUMENTS, read_values
from deadline_perception.nodes.node_table import RECORDER, BringupError
from deadline_perception.system.supervision import TRY_AGAIN_STATUS, ProcessOrder, describe_exit
from launch import LaunchContext, LaunchDescription


def generate_launch_description() -> LaunchDescription:
    """Arguments, a look at the bag, the nodes, and the player, which waits until all of them are ready."""
    declared = [DeclareLaunchArgument(**argument.declaration()) for argument in ARGUMENTS]
    perception = PythonLaunchDescriptionSource(
        str(Path(__file__).with_name('perception.launch.py'))
    )
    return LaunchDescription(
        [
            *declared,
            OpaqueFunction(function=_check),
            IncludeLaunchDescription(perception),
            OpaqueFunction(function=_replay),
        ]
    )


def _values(context: LaunchContext) -> dict[str, object]:
    texts = {
        argument.name: LaunchConfiguration(argument.name).perform(context) for argument in ARGUMENTS
    }
    return read_values(texts, context.launch_configurations.get('ros_namespace', ''))


def _check(context: LaunchContext) -> list:
    values = bag_replay.prepare_replay(_values(context))
    bag_replay.check_recording(values)
    return [SetLaunchConfiguration('image_transport', str(values['image_transport']))]


def _replay(context: LaunchContext) -> list:
    values = _values(context)
    recorder = _start(bringup.process_order(RECORDER, values)) if values['record'] else []
    return [*recorder, *_start(bringup.readiness_order(values))]


def _start(order: ProcessOrder) -> list:
    process = ExecuteProcess(
        cmd=list(order.command), additional_env=dict(order.environment), output='screen'
    )
    return [
        process,
        RegisterEventHandler(OnProcessExit(target_action=process, on_exit=partial(_go_on, order))),
    ]


def _go_on(order: ProcessOrder, event: ProcessExited, context: LaunchContext) -> list:
    """What follows the end of a process. Launch must not be shut down twice.

    Raises:
        BringupError: the process failed, or ended before the others.
    """
    failure = BringupError(f'{order.name} ended with {describe_exit(event.returncode)}')
    if context.is_shutdown:
        # Of an interrupted replay the recording matters. A process that Python itself was still starting ends with 1.
        if event.returncode > 0 and not (order.then or order.ends_run):
            raise failure
        return []
    if event.returncode == TRY_AGAIN_STATUS and order.retries > 0:
        return _start(replace(order, retries=order.retries - 1))
    if event.returncode != 0 or not (order.then or order.ends_run):
        raise failure
    if order.then:
        return [action for following in order.then for action in _start(following)]
    return [
        TimerAction(
            period=bringup.LINGER_S,
            actions=[EmitEvent(event=Shutdown(reason='the bag has been played'))],
        )
    ]
