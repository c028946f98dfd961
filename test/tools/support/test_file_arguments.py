"""What is said of places that nothing can be written to, and of numbers outside their ranges."""

import os
from pathlib import Path

import pytest

from deadline_perception.tools.support.file_arguments import check_file


@pytest.mark.parametrize('owned', [set(), {'mine'}])
def test_places_of_others_are_refused(tmp_path, monkeypatch, owned):
    (tmp_path / 'mine').touch()
    monkeypatch.setattr(os, 'access', lambda place, mode: place.name in owned)
    with pytest.raises(
        ValueError, match=f'--out is .*mine, but this user may not write {tmp_path};'
    ):
        check_file('--out', tmp_path / 'mine')


def test_a_device_is_not_replaced(tmp_path):
    """As root, a file would take the place of /dev/null."""
    os.mkfifo(tmp_path / 'pipe')
    for place in (tmp_path / 'pipe', Path('/dev/null')):
        with pytest.raises(ValueError, match='which is a device; expected a file'):
            check_file('--json', place)
