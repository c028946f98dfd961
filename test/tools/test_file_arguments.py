"""What is said of places that nothing can be written to."""
from __future__ import annotations

import os
from pathlib import Path

import pytest

from deadline_perception.tools.file_arguments import (DEFAULT_WEIGHTS, WeightsNotFound, check_file, check_folder,
                                                    find_weights)


def test_new_and_existing_places_are_fine_and_nothing_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'there').touch()
    check_file('--out', tmp_path / 'there')
    check_file('--out', tmp_path / 'a' / 'b' / 'new.json')
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
        with pytest.raises(ValueError, match=r"--out is .*below, but .*file is a file; expected a folder"):
            check('--out', tmp_path / 'file' / 'deep' / 'below')


def test_a_place_of_others_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, 'access', lambda place, mode: False)
    with pytest.raises(ValueError, match='this user may not write'):
        check_file('--out', tmp_path / 'new.json')


def test_shipped_weights_are_found_from_any_folder(tmp_path, monkeypatch, repository):
    monkeypatch.chdir(tmp_path)
    assert find_weights(DEFAULT_WEIGHTS) == repository / DEFAULT_WEIGHTS


def test_a_file_of_that_name_in_the_working_folder_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    DEFAULT_WEIGHTS.parent.mkdir()
    DEFAULT_WEIGHTS.touch()
    assert find_weights(DEFAULT_WEIGHTS) == tmp_path / DEFAULT_WEIGHTS


@pytest.mark.parametrize('name', ['absent.safetensors', '.'])
def test_what_is_no_file_is_named(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WeightsNotFound, match=f'weights file {name} does not exist; expected'):
        find_weights(Path(name))
