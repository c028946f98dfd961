"""What weights keep of the runs that made them; the commands that write it are tested in test_train and test_soup."""

import argparse
import json
from pathlib import Path

import pytest

from deadline_perception.extras.weights_writer import build_detector, save_detector
from deadline_perception.tools.recipe import recipe_text


@pytest.mark.parametrize(
    'stored, expected', [(None, None), ('{"step": 7}', {'step': 7}), ('by hand', 'by hand')]
)
def test_the_recipe_of_the_start_is_kept_as_it_is_and_folders_are_not(tmp_path, stored, expected):
    start = tmp_path / 'start.safetensors'
    recipe = {} if stored is None else {'recipe': stored}
    save_detector(build_detector('compact', ('vehicle',)), start, **recipe)
    args = argparse.Namespace(start=start, data=['a/b/train.json', 'drive'], seed=3, run=print)
    recipe = json.loads(recipe_text(args, 'abc', 2))
    assert recipe.pop('start', None) == expected
    arguments = {'start': 'start.safetensors', 'data': ['train.json', 'drive'], 'seed': 3}
    assert recipe == {'arguments': arguments, 'data': 'abc', 'step': 2}
    public = argparse.Namespace(start=Path('person-vehicle-bike-detection-2003.xml'))
    assert 'start' not in json.loads(recipe_text(public, 'abc', 2))  # it has none
