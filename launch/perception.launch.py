"""All nodes of `deadline_perception.nodes.node_table`: camera images in, detections before a deadline out."""

from __future__ import annotations

import inspect

from launch.actions import DeclareLaunchArgument, ExecuteLocal, LogInfo, OpaqueFunction
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode, Node

from deadline_perception.core.share_folder import share_folder
from deadline_perception.nodes import bringup
from deadline_perception.nodes.launch_arguments import ARGUMENTS, Argument, read_values
from deadline_perception.nodes.node_table import NodeEntry, node_parameters, node_remaps
from deadline_perception.system.supervision import RESPAWN_DELAY_S
from launch import LaunchContext, LaunchDescription

MAX_RESPAWNS = 20  # of one node; launch counts from its own start, not within a window of time
# RViz comes with ROS, as launch does.
_USE_RVIZ = Argument('use_rviz', False, 'start RViz as well')
# RViz's layout shows the topic of a node without a namespace; a relative name lies in the one of RViz itself.
_RVIZ_REMAPS = (('/path_visualizer/image', 'path_visualizer/image'),)
# Launch of Humble and Iron knows no limit: there, nodes are started again for ever.
_LIMIT = (
    {'respawn_max_retries': MAX_RESPAWNS}
    if 'respawn_max_retries' in inspect.signature(ExecuteLocal.__init__).parameters
    else {}
)


def generate_launch_description() -> LaunchDescription:
    """Arguments and nodes; nothing is loaded or looked for before the launch begins."""
    declared = [
        DeclareLaunchArgument(**argument.declaration())
        for argument in (*ARGUMENTS, _USE_RVIZ)
        if argument.launch
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=_nodes)])


def _nodes(context: LaunchContext) -> list[Node | LogInfo]:
    texts = {
        argument.name: LaunchConfiguration(argument.name).perform(context)
        for argument in ARGUMENTS
        if argument.launch
    }
    values = read_values(texts, context.launch_configurations.get('ros_namespace', ''))
    nodes = [_node(entry, values) for entry in bringup.wanted_nodes(values)]
    if _USE_RVIZ.value_of(LaunchConfiguration(_USE_RVIZ.name).perform(context)):
        nodes.append(
            Node(
                package='rviz2',
                executable='rviz2',
                output='screen',
                namespace=values['namespace'],
                arguments=['-d', str(share_folder() / 'config' / 'perception.rviz')],
                remappings=_RVIZ_REMAPS,
                parameters=[{'use_sim_time': values['use_sim_time']}],
            )
        )
    return [*(LogInfo(msg=line) for line in bringup.unused_sections(values)), *nodes]


def _node(entry: NodeEntry, values: dict[str, object]) -> Node:
    kind = LifecycleNode if entry.lifecycle else Node
    ends = []

    def say_when_given_up(event: ProcessExited, context: LaunchContext) -> list[LogInfo]:
        ends.append(event.returncode)
        if not _LIMIT or len(ends) <= MAX_RESPAWNS or context.is_shutdown:
            return []
        return [
            LogInfo(
                msg=f'{entry.name} died {len(ends)} times: it stays down, the others go on without it'
            )
        ]

    return kind(
        package='deadline_perception',
        executable=entry.name,
        name=entry.name,
        namespace=str(values['namespace']),
        output='screen',
        emulate_tty=True,
        respawn=True,
        respawn_delay=RESPAWN_DELAY_S,
        on_exit=say_when_given_up,
        **_LIMIT,
        additional_env=bringup.node_environment(entry, values),
        parameters=[
            *(str(file) for file in bringup.parameter_files(entry, values)),
            node_parameters(entry, values),
        ],
        remappings=node_remaps(entry, values),
        ros_arguments=['--log-level', str(values['log_level'])],
    )
