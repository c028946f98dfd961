import os

import pytest


def test_ros2_launch_finds_each_launch_file_below_the_share_folder(repository):
    """It walks through folders, not behind links to folders."""
    index = pytest.importorskip('ament_index_python')
    share = index.get_package_share_directory('deadline_perception')
    found = {name for *_, names in os.walk(share) for name in names}
    files = {file.name for file in (repository / 'launch').glob('*.launch.py')}
    assert {name for name in found if name.endswith('.launch.py')} == files != set()
