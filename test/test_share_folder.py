from __future__ import annotations

from deadline_perception.share_folder import share_folder


def test_the_share_folder_of_a_source_tree_is_its_root(repository):
    assert share_folder() == repository
