"""All nodes, as `deadline_perception.nodes.bringup` lists them: camera images in, detections before a deadline out."""
from __future__ import annotations

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode, Node

from deadline_perception.nodes import bringup


def generate_launch_description() -> LaunchDescription:
    """Arguments and nodes; nothing is loaded or looked for before the launch begins."""
    declared = [DeclareLaunchArgument(argument.name, default_value=bringup.as_text(argument.default),
                                      description=argument.description)
                for argument in bringup.ARGUMENTS if argument.launch]
    return LaunchDescription([*declared, OpaqueFunction(function=_nodes)])


def _nodes(context: LaunchContext) -> list[Node]:
    texts = {argument.name: LaunchConfiguration(argument.name).perform(context)
             for argument in bringup.ARGUMENTS if argument.launch}
    values = bringup.read_values(texts)
    nodes = [_node(entry, values) for entry in bringup.NODES]
    if values['use_rviz']:
        order = bringup.rviz_order(values)
        nodes.append(Node(package='rviz2', executable='rviz2', output='screen',
                          arguments=list(order.command[1:order.command.index('--ros-args')]),
                          parameters=[{'use_sim_time': values['use_sim_time']}]))
    return nodes


def _node(entry: bringup.NodeEntry, values: dict[str, object]) -> Node:
    kind = LifecycleNode if entry.lifecycle else Node
    return kind(
        package=bringup.PACKAGE, executable=entry.name, name=entry.name, namespace=str(values['namespace']),
        output='screen', emulate_tty=True, respawn=entry.respawn, respawn_delay=bringup.RESPAWN_DELAY_S,
        additional_env=bringup.node_environment(entry, values),
        parameters=[*(str(file) for file in bringup.parameter_files(entry, values)),
                    bringup.node_parameters(entry, values)],
        remappings=bringup.node_remaps(entry, values),
        ros_arguments=['--log-level', str(values['log_level'])])
