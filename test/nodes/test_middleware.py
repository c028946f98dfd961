from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deadline_perception.nodes.middleware import VARIABLES, make_room_for_images


def test_profile_of_the_user_stays(monkeypatch):
    monkeypatch.delenv(VARIABLES[1], raising=False)
    monkeypatch.setenv(VARIABLES[0], '/home/me/profile.xml')
    make_room_for_images()
    assert os.environ[VARIABLES[0]] == '/home/me/profile.xml' and VARIABLES[1] not in os.environ


@pytest.mark.slow
@pytest.mark.parametrize(
    ('name', 'has_room'),
    [('path_visualizer', True), ('time_budget', False)],
)
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


@pytest.mark.slow
def test_a_camera_with_the_profile_loses_no_image(repository):
    """A camera and a subscriber in processes of their own, and 15 images with best effort.

    They come slowly: a subscriber that a busy machine keeps from taking them for a second loses none for that.
    """
    domain = os.environ['ROS_DOMAIN_ID']
    parts = (
        f'q = queue.Queue(); t.receive({domain}, "best_effort", q); ways, lost = q.get(); print(len(ways), lost)',
        f't.publish("fastdds.xml", {domain}, "best_effort", 921600, 15, 5.0)',
    )
    subscriber, camera = (
        subprocess.Popen(
            [sys.executable, '-c', f'import queue; import image_transport as t; {part}'],
            cwd=repository / 'benchmarks',
            stdout=subprocess.PIPE,
            text=True,
        )
        for part in parts
    )
    assert subscriber.communicate(timeout=120)[0].split() == ['15', '0']
    assert camera.wait(timeout=60) == 0
