"""All nodes of `perception.launch.py` with the budgets of a slow indoor robot, in config/subflow_robot.yaml."""
from __future__ import annotations

from pathlib import Path

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration

from deadline_perception.nodes import bringup

CONFIG = Path(__file__).parents[1] / 'config' / 'subflow_robot.yaml'


def generate_launch_description() -> LaunchDescription:
    """The arguments of `perception.launch.py`, of which `params_file` has another default."""
    arguments = [argument for argument in bringup.ARGUMENTS if argument.launch]
    defaults = {argument.name: bringup.as_text(argument.default) for argument in arguments} | {'params_file': str(CONFIG)}
    declared = [DeclareLaunchArgument(argument.name, default_value=defaults[argument.name],
                                      description=argument.description) for argument in arguments]
    perception = IncludeLaunchDescription(
        PythonLaunchDescriptionSource(str(Path(__file__).with_name('perception.launch.py'))),
        launch_arguments=[(argument.name, LaunchConfiguration(argument.name)) for argument in arguments])
    return LaunchDescription([*declared, perception])
