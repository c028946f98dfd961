import json
import sys
from pathlib import Path

import pytest

from deadline_perception.extras.data import message_definitions


def test_hashes_are_those_of_the_installed_interfaces():
    installed = Path(sys.prefix) / 'share' / 'vision_msgs' / 'msg' / 'Detection2DArray.json'
    if not installed.is_file():
        pytest.skip('no generated vision_msgs in this environment')
    name = 'vision_msgs/msg/Detection2DArray'
    known = json.loads(installed.read_text())
    (expected,) = [row['hash_string'] for row in known['type_hashes'] if row['type_name'] == name]
    assert message_definitions.message_types().hash_rihs01(name) == expected


def test_an_install_without_definitions_says_how_to_get_them(tmp_path, monkeypatch):
    monkeypatch.delenv('AMENT_PREFIX_PATH', raising=False)
    monkeypatch.setattr(sys, 'prefix', str(tmp_path / 'none'))
    folders = {'vision_msgs': tmp_path / 'vision_msgs/msg'}
    monkeypatch.setattr(message_definitions, '_FOLDERS', folders)
    without_cache = message_definitions.message_types.__wrapped__
    words = 'of vision_msgs in .*pip install -e'
    with pytest.raises(message_definitions.DefinitionsMissing, match=words):
        without_cache()
