"""What is said of places that nothing can be written to, and of numbers outside their ranges."""

import argparse
import math
import os
from pathlib import Path

import pytest

from deadline_perception.tools.support.file_arguments import check_file, check_folder, check_numbers


def test_new_and_existing_places_are_fine_and_nothing_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'there').touch()
    check_file('--out', tmp_path / 'there')
    check_file('--out', tmp_path / 'a/b' / 'new.json')
    check_folder('--out', tmp_path)
    check_folder('--out', (tmp_path / 'a').relative_to(tmp_path))
    assert os.listdir(tmp_path) == ['there']


def test_a_file_is_no_folder_and_a_folder_no_file(tmp_path):
    (tmp_path / 'file').touch()
    with pytest.raises(ValueError, match='--json is .*, which is a folder; expected a file'):
        check_file('--json', tmp_path)
    with pytest.raises(ValueError, match='--out is .*, which is a file; expected a folder'):
        check_folder('--out', tmp_path / 'file')
    for check in (check_file, check_folder):
        with pytest.raises(ValueError, match='--out is .*below, but .*file is a file'):
            check('--out', tmp_path / 'file/deep' / 'below')


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


def test_what_is_read_or_written_as_well_is_not_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'data.json').touch()
    (tmp_path / 'link.json').symlink_to('data.json')
    (tmp_path / 'loop').symlink_to('loop')
    check_file('--out', tmp_path / 'new.json', 'data.json', None, tmp_path, 'drive')
    check_file('--out', tmp_path / 'loop', 'data.json')
    for file in (tmp_path / 'data.json', Path('link.json'), Path('./data.json')):
        with pytest.raises(ValueError, match='--out is .*, as another file of this command'):
            check_file('--out', file, None, 'data.json')


@pytest.mark.parametrize(
    'value, said', [(0, '--at-once is 0, expected at least 1'), (math.nan, '--at-once is nan')]
)
def test_numbers_lie_in_their_ranges_where_they_are_given(value, said):
    for fine in (None, 1, math.inf):
        check_numbers(argparse.Namespace(at_once=fine), at_once=(1, math.inf))
    with pytest.raises(ValueError, match=said):
        check_numbers(argparse.Namespace(at_once=value), at_once=(1, math.inf))
