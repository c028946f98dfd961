"""All nodes of `perception.launch.py` with the budgets of a slow indoor robot, in config/subflow_robot.yaml."""
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource

from deadline_perception.nodes.launch_arguments import ARGUMENTS

CONFIG = Path(__file__).parents[1] / 'config' / 'subflow_robot.yaml'


def generate_launch_description() -> LaunchDescription:
    """The arguments of `perception.launch.py`, of which `params_file` has another default."""
    own = {'params_file': str(CONFIG)}
    arguments = [replace(argument, default=own.get(argument.name, argument.default))
                 for argument in ARGUMENTS if argument.launch]
    declared = [DeclareLaunchArgument(**argument.declaration()) for argument in arguments]
    source = PythonLaunchDescriptionSource(str(Path(__file__).with_name('perception.launch.py')))
    return LaunchDescription([*declared, IncludeLaunchDescription(source)])
