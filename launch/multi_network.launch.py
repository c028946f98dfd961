"""Several networks on one machine, scheduled for the most quality: `perception.launch.py` with a task file.

    ros2 launch deadline_perception multi_network.launch.py tasks:=TASKS.yaml
"""
from __future__ import annotations

from pathlib import Path

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration

from deadline_perception.nodes.launch_arguments import ARGUMENTS
from deadline_perception.nodes.node_table import BringupError


def generate_launch_description() -> LaunchDescription:
    """The arguments of `perception.launch.py`, of which `tasks` has to be given."""
    declared = [DeclareLaunchArgument(**argument.declaration()) for argument in ARGUMENTS if argument.launch]
    source = PythonLaunchDescriptionSource(str(Path(__file__).with_name('perception.launch.py')))
    return LaunchDescription([*declared, OpaqueFunction(function=_check), IncludeLaunchDescription(source)])


def _check(context: LaunchContext) -> list:
    if not LaunchConfiguration('tasks').perform(context):
        raise BringupError('tasks is empty, expected a task file; docs/several_networks.md has an example')
    return []
