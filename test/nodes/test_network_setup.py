from __future__ import annotations

from pathlib import Path

import pytest

from deadline_perception.nodes.network_setup import SetupError, find_weights, share_folder


def test_weights_are_a_file_or_the_name_of_a_shipped_one(tmp_path):
    (tmp_path / 'compact.safetensors').touch()
    assert find_weights('compact', tmp_path) == tmp_path / 'compact.safetensors'
    assert find_weights('/elsewhere/own.safetensors', tmp_path) == Path('/elsewhere/own.safetensors')


def test_an_unknown_name_is_refused_with_those_that_exist(tmp_path):
    with pytest.raises(SetupError, match=r"'large', expected .* \(none\)"):
        find_weights('large', tmp_path)
    (tmp_path / 'compact.safetensors').touch()
    with pytest.raises(SetupError, match=r'\(compact\)'):
        find_weights('large', tmp_path)


def test_the_share_folder_of_a_source_tree_is_its_root(repository):
    assert share_folder() == repository
