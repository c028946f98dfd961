"""What is refused before a bag is played to the nodes, or what they publish recorded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from deadline_perception.nodes.node_table import BringupError


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


def check_recording(values: Mapping[str, object]) -> None:
    """Finds out what would end a recording, if one is wanted, before anything is loaded.

    Raises:
        BringupError: the recording would replace a file, or cannot be written.
    """
    if not values['record']:
        return
    file = Path(str(values['record'])).expanduser()
    if file.exists():
        raise BringupError(f'{file} exists already, expected a new name for the recording')
    if file.suffix != '.mcap':
        raise BringupError(f'{file} cannot be recorded to, expected a name that ends with .mcap')
    if not file.parent.is_dir():
        raise BringupError(f'{file} cannot be recorded to: there is no folder {file.parent}')
    if not os.access(file.parent, os.W_OK):
        raise BringupError(f'{file} cannot be recorded to: this user may not write {file.parent}')
