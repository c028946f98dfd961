"""How weights came about, as their files say it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from deadline_perception.core.untrusted_file import FileRefused, parse_json
from deadline_perception.networks.weights_file import read_recipe


def recipe_text(args: argparse.Namespace, data: str, step: int) -> str:
    """All arguments of a training run, digest of its data, last step, and the recipe of the weights that it started
    from: JSON."""
    arguments = {
        name: _without_folders(value)
        for name, value in vars(args).items()
        if name not in ('name', 'run')
    }
    recipe = {'arguments': arguments, 'data': data, 'step': step}
    # A public detector's .xml says nothing of that.
    start = None if args.start is None or args.start.suffix == '.xml' else recipe_in(args.start)
    return json.dumps(recipe if start is None else recipe | {'start': start})


def recipe_in(weights: Path) -> object:
    """What a file of weights says; None where it does not, and the text itself where that is no JSON."""
    text = read_recipe(weights)
    try:
        return None if text is None else parse_json(text)
    except FileRefused:
        return text


def _without_folders(value: object) -> object:
    """Names of files and data sets alone: the folders are those of one machine."""
    if isinstance(value, (list, tuple)):
        return [_without_folders(one) for one in value]
    return Path(value).name or str(value) if isinstance(value, (str, Path)) else value
