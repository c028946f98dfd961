"""Who may have written a folder of prepared segments, which are code."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path

_ROOT = 'deadline_perception'  # in the user's cache
_FEWEST_FOLDERS = 3  # that are looked at where a store lies elsewhere


def foreign_writer(folder: Path) -> str:
    """Why somebody else may have written what lies in a folder of prepared segments; empty where nobody can.

    A folder that is not there yet is judged by those above it.
    """
    for place in (*_own_folders(folder), *sorted(folder.glob('*'))):
        try:
            facts = place.lstat() if place.parent == folder else place.stat()
        except FileNotFoundError:
            continue
        except OSError as error:
            return f'{place} cannot be looked at: {error.strerror}'
        if stat.S_ISLNK(facts.st_mode):
            return f"{place} is a link, expected a file: what it names may be another user's"
        if facts.st_uid not in (0, os.geteuid()):
            return f'{place} belongs to the user {facts.st_uid}, expected {os.geteuid()}'
        if facts.st_mode & stat.S_IWOTH:
            return f'{place} may be written by everybody, expected by its owner alone: chmod o-w {place}'
        if facts.st_mode & stat.S_IWGRP and not _is_own_group(facts.st_gid):
            return (
                f'{place} may be written by the group {facts.st_gid}, expected by its owner alone: '
                f'chmod g-w {place}'
            )
    return ''


def _own_folders(folder: Path) -> list[Path]:
    """A folder and those above it that are this package's; what lies above these is the user's."""
    places = [folder, *folder.parents]
    names = [place.name for place in places]
    return places[: names.index(_ROOT) + 1 if _ROOT in names else _FEWEST_FOLDERS]


def _is_own_group(group: int) -> bool:
    """Whether it is the group of this user alone, which many systems make with each user, and let write by default."""
    try:
        user = pwd.getpwuid(os.geteuid())
        facts = grp.getgrgid(group)
    except KeyError:
        return False
    return (
        group == user.pw_gid
        and set(facts.gr_mem) <= {user.pw_name}
        and facts.gr_name == user.pw_name
    )
