"""How a bag is played to the nodes, and what they publish recorded: what is started, and what is refused before."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from deadline_perception.core.child_command import module_command
from deadline_perception.nodes.bringup import (
    NODES_PACKAGE,
    common_ros_arguments,
    process_order,
    wanted_nodes,
)
from deadline_perception.nodes.node_table import (
    PLAYER,
    RECORDER,
    BringupError,
)
from deadline_perception.system.supervision import ProcessOrder


def readiness_order(values: Mapping[str, object]) -> ProcessOrder:
    """Waits until all nodes are ready, and then has the bag played."""
    awaited = [entry.name for entry in wanted_nodes(values)] + (
        [RECORDER.name] if values['record'] else []
    )
    command = module_command(
        NODES_PACKAGE, 'bag_readiness', *awaited, '--ros-args', *common_ros_arguments(values)
    )
    # Now and then the middleware does not introduce a new process to the others; the next one meets them.
    player = replace(process_order(PLAYER, values, ends_run=True), retries=2)
    return ProcessOrder('readiness', tuple(command), then=(player,))


def prepare_replay(values: Mapping[str, object]) -> Mapping[str, object]:
    """The values with the transport of the bag's camera; finds what would end a replay before anything is loaded.

    Raises:
        FileNotFoundError: there is no such bag.
        BagError: none is named, it is damaged, or its camera is not known.
        BringupError: the nodes would listen for images as they are not in the bag.
    """
    from deadline_perception.nodes.bag_source import choose_camera, open_bag

    bag = open_bag(str(values['bag']))
    try:
        camera = choose_camera(bag, str(values['camera']))
    finally:
        bag.close()
    if camera is None:
        return values
    transport = 'compressed' if camera.is_compressed else 'raw'
    if values['image_transport'] not in ('', transport):
        raise BringupError(
            f'image_transport is {values["image_transport"]!r}, but {camera.name} of the bag holds '
            f'{camera.msgtype}; expected {transport!r}, or nothing'
        )
    return {**values, 'image_transport': transport}


def check_recording(file: Path) -> None:
    """Finds out what would end a recording, before anything is loaded.

    Raises:
        BringupError: the recording would replace a file, or cannot be written.
    """
    if file.exists():
        raise BringupError(f'{file} exists already, expected a new name for the recording')
    if file.suffix != '.mcap':
        raise BringupError(f'{file} cannot be recorded to, expected a name that ends with .mcap')
    if not file.parent.is_dir():
        raise BringupError(f'{file} cannot be recorded to: there is no folder {file.parent}')
    if not os.access(file.parent, os.W_OK):
        raise BringupError(f'{file} cannot be recorded to: this user may not write {file.parent}')
