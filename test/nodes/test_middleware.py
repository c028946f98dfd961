import os
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from deadline_perception.nodes.middleware import VARIABLES, make_room_for_images


def test_profile_gives_several_images_room(monkeypatch, repository):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    make_room_for_images()
    (file,) = {os.environ[name] for name in VARIABLES}
    assert file == str(repository / 'config' / 'fastdds.xml')
    (size,) = ElementTree.parse(file).iterfind('.//{*}segment_size')
    assert int(size.text) > 4 * 1280 * 720 * 3


def test_profile_of_the_user_stays(monkeypatch):
    monkeypatch.delenv(VARIABLES[1], raising=False)
    monkeypatch.setenv(VARIABLES[0], '/home/me/profile.xml')
    make_room_for_images()
    assert os.environ[VARIABLES[0]] == '/home/me/profile.xml' and VARIABLES[1] not in os.environ


@pytest.mark.slow
@pytest.mark.parametrize(('name', 'has_room'), [('path_visualizer', True), ('time_budget', False)])
def test_who_sends_images_takes_shared_memory(start_node, observer, name, has_room):
    """A container has 64 MB for all."""
    # as on a robot, where nothing is set
    settings = [word for variable in VARIABLES for word in ('-u', variable)]
    node = start_node(
        name, program=('env', *settings, sys.executable, '-m', 'deadline_perception.nodes', name)
    )
    observer.wait_status(name)
    process = Path(f'/proc/{node.process.pid}')
    locks = {str(file.readlink()) for file in process.joinpath('fd').iterdir()}
    sizes = []
    for line in process.joinpath('maps').read_text().splitlines():
        addresses, *_, file = line.split()
        if f'{file}_el' in locks:  # its own; it maps those of other processes too
            begin, end = (int(address, 16) for address in addresses.split('-'))
            sizes.append(end - begin)
    assert sizes and any(size >= 16 * 2**20 for size in sizes) == has_room
