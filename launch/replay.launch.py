"""A bag through all nodes of `perception.launch.py`; everything ends when the bag has been played."""
from __future__ import annotations

from pathlib import Path

from launch import LaunchContext, LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    ExecuteProcess,
    IncludeLaunchDescription,
    OpaqueFunction,
    RegisterEventHandler,
    TimerAction,
)
from launch.event_handlers import OnProcessExit
from launch.events import Shutdown
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration

from deadline_perception.nodes import bringup


def generate_launch_description() -> LaunchDescription:
    """Arguments, the nodes, and the player, which waits until all of them are ready."""
    declared = [DeclareLaunchArgument(argument.name, default_value=bringup.as_text(argument.default),
                                      description=argument.description) for argument in bringup.ARGUMENTS]
    perception = IncludeLaunchDescription(
        PythonLaunchDescriptionSource(str(Path(__file__).with_name('perception.launch.py'))),
        launch_arguments=[(argument.name, LaunchConfiguration(argument.name))
                          for argument in bringup.ARGUMENTS if argument.launch])
    return LaunchDescription([*declared, perception, OpaqueFunction(function=_replay)])


def _replay(context: LaunchContext) -> list:
    values = bringup.read_values({argument.name: LaunchConfiguration(argument.name).perform(context)
                                  for argument in bringup.ARGUMENTS})
    actions = []
    if values['record']:
        recorder = bringup.process_order(bringup.RECORDER, values)
        recording = ExecuteProcess(cmd=list(recorder.command), output='screen')
        not_recorded = EmitEvent(event=Shutdown(reason='the recorder has ended'))
        actions += [recording, RegisterEventHandler(OnProcessExit(target_action=recording, on_exit=[not_recorded]))]
    readiness = bringup.readiness_order(values)
    ready = ExecuteProcess(cmd=list(readiness.command), output='screen')
    player = ExecuteProcess(cmd=list(bringup.player_command(values)), output='screen')
    done = TimerAction(period=bringup.LINGER_S, actions=[EmitEvent(event=Shutdown(reason='the bag has been played'))])
    not_ready = EmitEvent(event=Shutdown(reason='the nodes did not get ready'))
    return [*actions, ready,
            RegisterEventHandler(OnProcessExit(
                target_action=ready, on_exit=lambda event, _: [player] if event.returncode == 0 else [not_ready])),
            RegisterEventHandler(OnProcessExit(target_action=player, on_exit=[done]))]
