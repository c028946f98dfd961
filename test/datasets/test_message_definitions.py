from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from deadline_perception.datasets import message_definitions


def test_knows_ros_vision_and_own_messages():
    types = message_definitions.message_types().types
    for name in ('sensor_msgs/msg/Image', 'vision_msgs/msg/Detection2DArray', 'deadline_perception/msg/FrameLatency'):
        assert name in types


def test_hashes_are_those_of_the_installed_interfaces():
    installed = Path(sys.prefix) / 'share' / 'vision_msgs' / 'msg' / 'Detection2DArray.json'
    if not installed.is_file():
        pytest.skip('no generated vision_msgs in this environment')
    hashes = {entry['type_name']: entry['hash_string'] for entry in json.loads(installed.read_text())['type_hashes']}
    name = 'vision_msgs/msg/Detection2DArray'
    assert message_definitions.message_types().hash_rihs01(name) == hashes[name]


def test_an_install_without_definitions_says_how_to_get_them(tmp_path, monkeypatch):
    monkeypatch.setattr(message_definitions, '_FOLDERS', {'vision_msgs': tmp_path / 'vision_msgs' / 'msg'})
    monkeypatch.delenv('AMENT_PREFIX_PATH', raising=False)
    monkeypatch.setattr(sys, 'prefix', str(tmp_path / 'none'))
    message_definitions.message_types.cache_clear()
    try:
        with pytest.raises(message_definitions.DefinitionsMissing, match='of vision_msgs in .*pip install -e'):
            message_definitions.message_types()
    finally:
        message_definitions.message_types.cache_clear()


def test_prefers_an_installed_package(tmp_path, monkeypatch):
    folder = tmp_path / 'share' / 'vision_msgs' / 'msg'
    folder.mkdir(parents=True)
    (folder / 'Only.msg').write_text('int32 number\n')
    monkeypatch.setenv('AMENT_PREFIX_PATH', str(tmp_path))
    monkeypatch.setattr(sys, 'prefix', str(tmp_path / 'none'))
    message_definitions.message_types.cache_clear()
    try:
        types = message_definitions.message_types().types
        assert 'vision_msgs/msg/Only' in types and 'vision_msgs/msg/Detection2DArray' not in types
        assert 'deadline_perception/msg/TimeBudget' in types
    finally:
        message_definitions.message_types.cache_clear()
