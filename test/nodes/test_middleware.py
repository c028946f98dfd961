from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree

from deadline_perception.nodes.middleware import make_room_for_images

VARIABLES = ('FASTRTPS_DEFAULT_PROFILES_FILE', 'FASTDDS_DEFAULT_PROFILES_FILE')


def test_profile_gives_several_images_room(monkeypatch, repository):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    make_room_for_images()
    files = {os.environ[name] for name in VARIABLES}
    assert files == {str(repository / 'config' / 'fastdds.xml')}
    sizes = [element.text for element in ElementTree.parse(files.pop()).iter() if element.tag.endswith('segment_size')]
    assert [int(size) > 4 * 1280 * 720 * 3 for size in sizes] == [True]


def test_profile_of_the_user_stays(monkeypatch):
    monkeypatch.delenv(VARIABLES[1], raising=False)
    monkeypatch.setenv(VARIABLES[0], '/home/me/profile.xml')
    make_room_for_images()
    assert os.environ[VARIABLES[0]] == '/home/me/profile.xml' and VARIABLES[1] not in os.environ
