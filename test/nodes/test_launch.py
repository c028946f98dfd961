"""The launch files as real launch descriptions; only where `launch` is installed, which is not on PyPI."""
from __future__ import annotations

import importlib.util

import pytest

# `launch` alone would find this repository's folder of that name.
pytest.importorskip('launch.actions', reason='launch comes with a ROS install')
pytest.importorskip('launch_ros', reason='launch_ros comes with a ROS install')

from launch import LaunchContext  # noqa: E402

from deadline_perception.nodes.bringup import ARGUMENTS, NODES  # noqa: E402


def load(repository, name):
    spec = importlib.util.spec_from_file_location(name, repository / 'launch' / f'{name}.launch.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize('name', ['perception', 'replay'])
def test_declares_its_arguments_without_model_or_data(repository, name):
    description = load(repository, name).generate_launch_description()
    declared = {action.name for action in description.get_launch_arguments()}
    assert declared == {argument.name for argument in ARGUMENTS if argument.launch or name == 'replay'}


def test_starts_the_nodes_of_the_table(repository):
    module = load(repository, 'perception')
    context = LaunchContext()
    for action in module.generate_launch_description().get_launch_arguments():
        action.execute(context)
    nodes = module._nodes(context)
    assert [node.node_executable for node in nodes] == [entry.name for entry in NODES]
