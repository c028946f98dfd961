"""The class maps that ship: what data sets call the things for which a network has names of its own.

`config/classes/NAME.yaml` renames one data set's classes. A file of the user's is read by `class_names`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from deadline_perception.core.share_folder import share_folder
from deadline_perception.extras.data.class_names import read_class_mapping, with_mapping
from deadline_perception.extras.data.records import Sequence


@dataclass(frozen=True)
class AppliedMap:
    """A shipped map where it was used.

    Attributes:
        name: of the map.
        renamed: name in the data -> name of the network.
    """

    name: str
    renamed: dict[str, str]

    def described(self) -> str:
        """One line for a person, which names the option that chooses another."""
        by_new: dict[str, list[str]] = {}
        for old, new in self.renamed.items():
            by_new.setdefault(new, []).append(old)
        words = '; '.join(f'{", ".join(old)} as {new}' for new, old in by_new.items())
        return f'classes brought together by the map {self.name}: {words} (--classes NAME|FILE for others)'


def map_names() -> tuple[str, ...]:
    """Names of the maps that ship."""
    return tuple(sorted(file.stem for file in _folder().glob('*.yaml')))


def read_map(name_or_file: str | Path) -> dict[str, str | None]:
    """A shipped map by its name, or a file's; see `class_names.read_class_mapping`.

    Raises:
        FileNotFoundError: it is neither.
        ValueError: the file holds anything else.
    """
    shipped = _folder() / f'{name_or_file}.yaml'
    if str(name_or_file) in map_names():
        return read_class_mapping(shipped)
    if not Path(name_or_file).is_file():
        raise FileNotFoundError(
            f'class map {str(name_or_file)!r} is neither a file nor one of {", ".join(map_names())}'
        )
    return read_class_mapping(Path(name_or_file))


def fitting_map(names: Collection[str], wanted: Collection[str]) -> AppliedMap | None:
    """The shipped map that brings most of the data's other classes to those that a network has.

    Args:
        names: of the data; those that are the network's stay as they are.
        wanted: of the network.

    Returns:
        None where no map helps.
    """
    return best_map([name for name in names if name not in wanted], wanted)


def best_map(names: Collection[str], wanted: Collection[str]) -> AppliedMap | None:
    """The shipped map that brings most of the names to wanted ones; None where none does."""
    best: AppliedMap | None = None
    for name in map_names():
        mapping = read_map(name)
        renamed = {old: mapping[old] for old in names if mapping.get(old) in wanted}
        if len(renamed) > (len(best.renamed) if best else 0):
            best = AppliedMap(name, renamed)
    return best


def with_fitting_map(
    sequence: Sequence, wanted: Collection[str]
) -> tuple[Sequence, AppliedMap | None]:
    """The sequence under the map that `fitting_map` finds, as it is where there is none."""
    applied = fitting_map(sequence.class_names, wanted)
    return (with_mapping(sequence, applied.renamed) if applied else sequence), applied


def _folder() -> Path:
    return share_folder() / 'config' / 'classes'
