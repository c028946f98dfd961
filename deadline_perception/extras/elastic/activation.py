"""Which neurons of an elastic network take part: for a utilisation, the most important ones of every layer.

An elastic network has its channels in the order of their importance, so an activation vector is so many ones followed
by zeros, of which the number says all (SubFlow, section IV-B, equations 1 and 6; the same utilisation for all layers as
there). Needs no torch.
"""

from __future__ import annotations

from dataclasses import dataclass

_ROUNDING = 1e-9  # 0.29 * 100 is less than 29


@dataclass(frozen=True)
class UnitGroup:
    """Neurons with one ranking.

    Attributes:
        units: that can be skipped one by one, at least 1; a unit is a channel, or several that belong together.
        whole_because: why all are always kept; empty where some may be skipped.
        names: layers whose outputs these are.
    """

    units: int
    whole_because: str = ''
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.units < 1:
            raise ValueError(f'group of {self.names} has {self.units} units, expected at least 1')


@dataclass(frozen=True, eq=False)
class Activation:
    """A sub-network.

    Attributes:
        utilisation: u in (0, 1].
        kept: units kept, by group: `floor(u * units)`, at least 1; all of a group that stays whole.
        row: number of the smallest setting of the network that is at least u; norms keep statistics for each.
        groups: of the network.
        is_setting: u is a setting, for which layers keep laid-out weights.
    """

    utilisation: float
    kept: tuple[int, ...]
    row: int
    groups: tuple[UnitGroup, ...]
    is_setting: bool = False

    @property
    def key(self) -> int | None:
        """Under which layers keep their weights laid out; None where they shall not."""
        return self.row if self.is_setting else None


def activate(
    groups: tuple[UnitGroup, ...], utilisation: float, settings: tuple[float, ...] = (1.0,)
) -> Activation:
    """The sub-network of a utilisation.

    Args:
        groups: of the network.
        utilisation: u in (0, 1].
        settings: utilisations that the network is prepared for, ascending, the last one 1.

    Raises:
        ValueError: the utilisation lies outside its range.
    """
    check_utilisation(utilisation)
    kept = tuple(
        [
            group.units
            if group.whole_because
            else max(1, int(utilisation * group.units + _ROUNDING))
            for group in groups
        ]
    )
    row = next(
        number for number, setting in enumerate(settings) if setting >= utilisation - _ROUNDING
    )
    return Activation(utilisation, kept, row, groups, settings[row] == utilisation)


def check_utilisation(utilisation: float) -> None:
    """Refuses what is no utilisation.

    Raises:
        ValueError: it is no number in (0, 1].
    """
    if (
        isinstance(utilisation, bool)
        or not isinstance(utilisation, (int, float))
        or not 0.0 < utilisation <= 1.0
    ):
        raise ValueError(f'utilisation is {utilisation!r}, expected a number in (0, 1]')


def check_settings(settings: tuple[float, ...]) -> tuple[float, ...]:
    """The settings of an elastic network as floats.

    Raises:
        ValueError: one is no utilisation, they do not ascend, or the last is not 1.
    """
    for setting in settings:
        check_utilisation(setting)
    settings = tuple(float(setting) for setting in settings)
    if not settings or list(settings) != sorted(set(settings)) or settings[-1] != 1.0:
        raise ValueError(
            f'settings of utilisation are {settings}, expected ascending numbers in (0, 1], the last '
            f'one 1'
        )
    return settings
