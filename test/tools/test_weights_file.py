"""Weights are found by their own name and, from any folder, by that of the package."""
from __future__ import annotations

from pathlib import Path

import pytest

from deadline_perception.tools.weights_file import DEFAULT_WEIGHTS, WeightsNotFound, find_weights


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
