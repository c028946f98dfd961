"""Where the files are that come with the package beside its code."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from deadline_perception.core.errors import DeadlinePerceptionError

DEFAULT_MODEL = 'street'  # of the weights in `models`


class NotInstalled(DeadlinePerceptionError):
    """The package is installed without its files."""


def share_folder() -> Path:
    """The folder that holds `config`, `launch` and `models`: of the source tree where it is one, else installed.

    Raises:
        NotInstalled: the package is installed without that folder.
    """
    source = Path(__file__).resolve().parents[2]
    if (source / 'package.xml').is_file():
        return source
    prefixes = [
        *filter(None, os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep)),
        sys.prefix,
    ]
    for prefix in (*prefixes, *map(str, source.parents)):
        folder = Path(prefix) / 'share' / 'deadline_perception'
        if folder.is_dir():
            return folder
    raise NotInstalled(
        f'share/deadline_perception lies in none of {", ".join(prefixes)}; is the workspace sourced?'
    )
