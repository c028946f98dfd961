"""Fills the one template of the pages of recorded runs, `report.html.j2`."""
from __future__ import annotations

from pathlib import Path


def render(**values: object) -> str:
    """A whole page; texts are escaped unless the template marks them as markup.

    Args:
        values: what the template names; one that is missing is an error.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True,
                              undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template('report.html.j2').render(values)
