"""What a network can decide, declared once: its operators, its segments, and the execution paths that follow from them.

A frame runs through a fixed sequence of *segments*. Some begin with a decision: an *operator* takes one of its
settings. An `ExecutionPath` holds one setting for every operator; a `PathSpace` holds all paths and says what each
segment runs on a given one. Where one operator chooses among alternatives, such as several models, some segments and
operators belong to one of them alone. Everything outside the network that owns an operator loops over this declaration.
Needs neither torch nor ROS. Source of the first four kinds of operator: multi-path paper, section V-A; width:
nested-network thesis.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

Setting = str | int | float
Condition = tuple[int, tuple[int, ...]]  # place of an operator, indices of its settings
# Place of a skip, places of operators, and keys by their settings: see `PathSpace.key_tables`.
KeyTable = tuple[int | None, tuple[int, ...], dict[tuple[int, ...], str | None]]

# Kinds of operators, for colours and words; a network may bring others. Of a skip, the first setting leaves out the
# segment that begins with it.
SKIP = 'skip'
WIDTH = 'width'
PROPOSALS = 'proposals'
SWITCH = 'switch'
SCALE = 'scale'
LEVEL = 'level'
MODEL = 'model'
PASS = 'pass'

WHOLE = 'whole'  # name of a path that has nothing to say: its network decides nothing
_NAME = re.compile(r'[A-Za-z_]\w*')
_SYMBOL = re.compile(r'[a-z]+')
_LABEL = re.compile(r'[A-Za-z0-9_.]+')


@dataclass(frozen=True)
class Operator:
    """One decision of a network.

    Attributes:
        name: unique name, such as `skip2` or `width`.
        kind: such as `SKIP`; operators of one kind are drawn and worded alike.
        settings: what it can be set to, ascending in work; the last one is the whole network.
        symbol: lower-case letters that begin its part of a path's name; neighbours with one symbol share one part.
        labels: what the settings are called in that part; by default the settings, fractions with two decimals.
        unnamed: index of the setting at which its part is absent from the name of a path, where all that share it are
            at theirs; None: it is always there.

    Raises:
        ValueError: a name is no identifier, settings are missing or out of order, or labels are not distinct.
    """

    name: str
    kind: str
    settings: tuple[Setting, ...]
    symbol: str
    labels: tuple[str, ...] = ()
    unnamed: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, 'settings', tuple(self.settings))
        object.__setattr__(
            self, 'labels', tuple(self.labels) or tuple(map(setting_text, self.settings))
        )
        if not (
            _NAME.fullmatch(self.name)
            and _NAME.fullmatch(self.kind)
            and _SYMBOL.fullmatch(self.symbol)
        ):
            raise ValueError(
                f'operator {self.name!r} of kind {self.kind!r} has the symbol {self.symbol!r}, expected '
                f'identifiers and a symbol of lower-case letters'
            )
        numeric = all(isinstance(setting, (int, float)) for setting in self.settings)
        if not self.settings or (numeric and list(self.settings) != sorted(self.settings)):
            raise ValueError(
                f'settings of {self.name} are {self.settings}, expected at least one, ascending in work'
            )
        if len({*self.labels}) != len(self.settings) or not all(map(_LABEL.fullmatch, self.labels)):
            raise ValueError(
                f'settings of {self.name} are called {self.labels}, expected a distinct label of letters, '
                f'digits, dots and underscores for each of {self.settings}'
            )

    @cached_property
    def positions(self) -> tuple[float, ...]:
        """Settings on a scale of work: counts by their logarithm, fractions as they are, others by rank."""
        if all(isinstance(setting, int) and setting > 0 for setting in self.settings):
            return tuple(math.log(float(setting)) for setting in self.settings)
        if all(isinstance(setting, float) for setting in self.settings):
            return tuple(map(float, self.settings))
        return tuple(float(rank) for rank in range(len(self.settings)))

    def index(self, setting: Setting) -> int:
        """Place of a setting among the operator's.

        Raises:
            ValueError: the operator has no such setting.
        """
        if setting not in self.settings:
            raise ValueError(
                f'{self.name} is {setting!r}, expected one of '
                f'{", ".join(map(setting_text, self.settings))}'
            )
        return self.settings.index(setting)


def setting_text(setting: Setting) -> str:
    """A setting for a person: fractions with two decimals."""
    return f'{setting:.2f}' if isinstance(setting, float) else str(setting)


@dataclass(frozen=True)
class Segment:
    """What a network runs between two decisions.

    Attributes:
        name: unique name, such as `stage2`.
        phase: part of the network that its time is reported under, such as `conv`.
        operator: name of the operator that is decided as the segment begins, None where nothing is decided.
        depends_on: names of the operators whose settings decide its work; all decided by then.
        only_on: name of an operator decided before it and the settings on which the segment runs, such as one model
            of several; on the others it is skipped, and what it decides is pinned to the last setting. None: on all.
        keys: where its name does not say what it runs: that, by the setting of the one operator that it depends on. It
            may be what another segment runs, which then takes the same time. With a setting that is not there it runs
            nothing; with an empty mapping it never does, and only decides.
        result: name of what the network has found once it ran, such as `coarse`, where that is a result so far: an
            answer to the image, though not the best. Empty where there is none.
    """

    name: str
    phase: str
    operator: str | None = None
    depends_on: tuple[str, ...] = ()
    only_on: tuple[Setting, ...] | None = None
    keys: Mapping[Setting, str] | None = field(default=None, hash=False)
    result: str = ''


@dataclass(frozen=True, order=True, repr=False)
class ExecutionPath:
    """One setting for every operator of a network.

    Attributes:
        settings: for each operator of the path space, in its order, the index of its setting; of one that the path does
            not come to, the last one, whatever was given.
        space: the path space; not compared.

    Raises:
        ValueError: an index is missing or out of range.
    """

    settings: tuple[int, ...]
    space: PathSpace = field(compare=False)

    def __post_init__(self) -> None:
        sizes = self.space.sizes
        if len(self.settings) != len(sizes) or not all(
            0 <= i < size for i, size in zip(self.settings, sizes)
        ):
            raise ValueError(
                f'settings of a path are {self.settings}, expected an index for each of {len(sizes)} '
                f'operators, below {sizes}'
            )
        if self.space.has_alternatives:
            object.__setattr__(self, 'settings', self.space.pinned(self.settings))

    def __str__(self) -> str:
        return self.space.name(self)

    __repr__ = __str__

    @cached_property
    def keys_by_segment(self) -> tuple[str | None, ...]:
        """`PathSpace.key` of every segment."""
        return tuple(self.space.key(at, self) for at in range(len(self.space.segments)))

    @cached_property
    def decided_by_segment(self) -> tuple[tuple[str, int] | None, ...]:
        """Name and place of the operator that is decided as each segment begins; None where none is on this path."""
        space = self.space
        return tuple(
            (segment.operator, space.place[segment.operator])
            if segment.operator is not None and space.applies(at, self)
            else None
            for at, segment in enumerate(space.segments)
        )

    def __getitem__(self, operator: str) -> Setting:
        """The setting of an operator, by the operator's name."""
        at = self.space.place[operator]
        return self.space.operators[at].settings[self.settings[at]]

    def replace(self, **choices: Setting) -> ExecutionPath:
        """The path with other settings of some operators.

        Raises:
            ValueError: an operator or its setting does not exist.
        """
        settings = list(self.settings)
        for name, setting in choices.items():
            if name not in self.space.place:
                raise ValueError(
                    f'operator is {name!r}, expected one of {", ".join(self.space.place)}'
                )
            settings[self.space.place[name]] = self.space.operator(name).index(setting)
        return ExecutionPath(tuple(settings), self.space)


@dataclass(frozen=True)
class PathSpace:
    """All execution paths of one network. Iterable; `len` and `in` work.

    Attributes:
        operators: in the order of a path's settings and of its name.
        segments: in the order in which a frame passes them.

    Raises:
        ValueError: names are not unique, an operator is not decided exactly once, or a segment depends on one that is
            decided after it has started, or belongs to an alternative that is not there or not decided before.
    """

    operators: tuple[Operator, ...]
    segments: tuple[Segment, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, 'operators', tuple(self.operators))
        object.__setattr__(self, 'segments', tuple(self.segments))
        for what, names in (
            ('operators', [operator.name for operator in self.operators]),
            ('segments', [segment.name for segment in self.segments]),
        ):
            if len(set(names)) != len(names):
                raise ValueError(f'{what} are {", ".join(names)}, expected distinct names')
        decided = [segment.operator for segment in self.segments if segment.operator is not None]
        if not self.segments or sorted(decided) != sorted(self.place):
            raise ValueError(
                f'segments decide {decided}, expected each of the operators {list(self.place)} once, in '
                f'at least one segment'
            )
        known: set[str] = set()
        for segment in self.segments:
            self._check_alternative(segment, known)
            known.update(filter(None, [segment.operator]))
            self._check_keys(segment)
            if not known.issuperset(segment.depends_on):
                raise ValueError(
                    f'segment {segment.name} depends on {segment.depends_on}, expected operators that are '
                    f'decided by then: {sorted(known)}'
                )
        symbols = sorted(symbol for symbol, _ in self._groups)
        for symbol, following in itertools.pairwise(symbols):
            if following.startswith(symbol):
                raise ValueError(
                    f'symbols of operators are {symbols}, expected none to begin another, and equal ones '
                    f'side by side, so that the parts of a name can be distinguished'
                )
        for symbol, group in self._groups:
            for operator in (self.operators[at] for at in group):
                lengths = {len(label) for label in operator.labels}
                if len(group) > 1 and len(lengths) > 1:
                    raise ValueError(
                        f'operator {operator.name} of the shared symbol {symbol!r} has labels of '
                        f'{sorted(lengths)} letters, expected one length, so that a name can be read'
                    )

    def _check_alternative(self, segment: Segment, known: set[str]) -> None:
        if segment.only_on is None:
            return
        name, *settings = segment.only_on
        if (
            name not in known
            or not settings
            or not set(settings) <= set(self.operator(str(name)).settings)
        ):
            raise ValueError(
                f'segment {segment.name} runs only on {name} {", ".join(map(repr, settings))}, expected '
                f'an operator that is decided before it, and some of its settings'
            )

    def _check_keys(self, segment: Segment) -> None:
        if not segment.keys:
            return
        operators = [self.operator(name) for name in segment.depends_on if name in self.place]
        if len(operators) != 1 or not set(segment.keys) <= set(operators[0].settings):
            raise ValueError(
                f'segment {segment.name} runs {dict(segment.keys)} by {segment.depends_on}, expected one '
                f'operator, and keys for some of its settings'
            )

    @cached_property
    def place(self) -> dict[str, int]:
        """Place of each operator by its name."""
        return {operator.name: at for at, operator in enumerate(self.operators)}

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of settings of each operator."""
        return tuple(len(operator.settings) for operator in self.operators)

    def operator(self, name: str) -> Operator:
        """An operator by its name."""
        return self.operators[self.place[name]]

    def of_kind(self, kind: str) -> tuple[Operator, ...]:
        """The operators of a kind, in the order in which they are decided."""
        decided = (
            self.operator(segment.operator)
            for segment in self.segments
            if segment.operator is not None
        )
        return tuple(operator for operator in decided if operator.kind == kind)

    @cached_property
    def phases(self) -> tuple[str, ...]:
        """The phases of the network, in the order in which a frame passes them."""
        return tuple(dict.fromkeys(segment.phase for segment in self.segments))

    def __iter__(self) -> Iterator[ExecutionPath]:
        every: Iterable[tuple[int, ...]] = itertools.product(*map(range, self.sizes))
        if self.has_alternatives:
            every = (settings for settings in every if self.pinned(settings) == settings)
        return (ExecutionPath(settings, self) for settings in every)

    def __len__(self) -> int:
        return self._length

    @cached_property
    def _length(self) -> int:
        return sum(1 for _ in self) if self.has_alternatives else math.prod(self.sizes)

    def __contains__(self, path: object) -> bool:
        return isinstance(path, ExecutionPath) and (path.space is self or path.space == self)

    @cached_property
    def largest(self) -> ExecutionPath:
        """The path with every operator at its last setting: the whole network."""
        return ExecutionPath(tuple(size - 1 for size in self.sizes), self)

    @cached_property
    def smallest(self) -> ExecutionPath:
        """The path with every operator at its first setting."""
        return ExecutionPath((0,) * len(self.sizes), self)

    def name(self, path: ExecutionPath) -> str:
        """Short name of a path, such as `s01100-w0.50-f0.50-p100-h1`; `parse` reads it."""
        parts = []
        for symbol, group in self._groups:
            if not self._comes_to(group, path.settings):
                continue
            if not all(path.settings[at] == self.operators[at].unnamed for at in group):
                parts.append(
                    symbol + ''.join(self.operators[at].labels[path.settings[at]] for at in group)
                )
        return '-'.join(parts) or WHOLE

    def parse(self, name: str) -> ExecutionPath:
        """The path of a name.

        Raises:
            ValueError: the name is none of this space.
        """
        found = self._form.fullmatch('' if name == WHOLE else name)
        if found is not None:
            settings = [operator.unnamed or 0 for operator in self.operators]
            for at, label in enumerate(found.groups()):
                if label is not None:
                    settings[at] = self.operators[at].labels.index(label)
            path = ExecutionPath(tuple(settings), self)
            if self.name(path) == name:
                return path
        raise ValueError(
            f'execution path is {name!r}, expected a form such as {self.largest} or {self.smallest}'
        )

    def key(self, segment: int, path: ExecutionPath) -> str | None:
        """Name of what a segment runs on a path; equal names take equal work. None when it is skipped.

        Args:
            segment: index into `segments`.
            path: a path of this space.
        """
        skip, depends_on, keys = self.key_tables[segment]
        if skip is not None and path.settings[skip] == 0:
            return None
        if self.has_alternatives and not self.applies(segment, path):
            return None
        return keys[tuple(map(path.settings.__getitem__, depends_on))]

    @cached_property
    def result_segments(self) -> tuple[int, ...]:
        """Indices of the segments after which a result exists, where the network declares any."""
        return tuple(at for at, segment in enumerate(self.segments) if segment.result)

    def results(self, path: ExecutionPath) -> tuple[str, ...]:
        """Names of the results that exist on a path, in their order."""
        keys = path.keys_by_segment
        return tuple(
            self.segments[at].result for at in self.result_segments if keys[at] is not None
        )

    def applies(self, segment: int, path: ExecutionPath) -> bool:
        """Whether a path comes to a segment, and decides there; False where it has taken another alternative."""
        condition = self.conditions[segment]
        return condition is None or path.settings[condition[0]] in condition[1]

    @cached_property
    def conditions(self) -> tuple[Condition | None, ...]:
        """Of each segment, the operator's place and the indices of the settings that it belongs to; None: of every
        path."""
        found: list[Condition | None] = []
        for segment in self.segments:
            if segment.only_on is None:
                found.append(None)
                continue
            name, *settings = segment.only_on
            operator = self.operator(str(name))
            found.append((self.place[operator.name], tuple(map(operator.index, settings))))
        return tuple(found)

    @cached_property
    def has_alternatives(self) -> bool:
        """Whether some paths do not come to all segments."""
        return any(condition is not None for condition in self.conditions)

    @cached_property
    def _operator_conditions(self) -> dict[int, Condition]:
        """Of the operators that some paths do not come to, by their place, in the order in which they are decided."""
        return {
            self.place[segment.operator]: condition
            for segment, condition in zip(self.segments, self.conditions)
            if segment.operator is not None and condition is not None
        }

    def pinned(self, settings: tuple[int, ...]) -> tuple[int, ...]:
        """Settings with those of operators that they do not come to at the last one."""
        found = list(settings)
        for at, (deciding, wanted) in self._operator_conditions.items():
            if found[deciding] not in wanted:
                found[at] = self.sizes[at] - 1
        return tuple(found)

    def _comes_to(self, group: tuple[int, ...], settings: Sequence[int]) -> bool:
        """Whether a path decides the operators that share one part of a name."""
        conditions = (self._operator_conditions.get(at) for at in group)
        return all(
            condition is None or settings[condition[0]] in condition[1] for condition in conditions
        )

    def keys(self, path: ExecutionPath) -> tuple[str, ...]:
        """Names of all that a path runs."""
        return tuple(name for name in path.keys_by_segment if name is not None)

    def carriers(self) -> dict[str, dict[int, int]]:
        """Every key that some path runs, in the order in which a frame meets them, and what a path must be set to for
        it: index of the setting by place of the operator."""
        found = {}
        for (skip, depends_on, keys), condition in zip(self.key_tables, self.conditions):
            for settings, key in keys.items():
                needed = dict(zip(depends_on, settings))
                if condition is not None:
                    needed.setdefault(condition[0], condition[1][-1])
                if key is None or (
                    skip is not None and needed.setdefault(skip, self.sizes[skip] - 1) == 0
                ):
                    continue
                found[key] = needed
        return found

    def prefix(self, path: ExecutionPath, segment: int) -> tuple[int, ...]:
        """The settings that are decided when segment number `segment` begins; its own operator is still free."""
        return tuple(map(path.settings.__getitem__, self.decided_before[segment]))

    @cached_property
    def decided_before(self) -> tuple[tuple[int, ...], ...]:
        """For each segment, and for the end, places of the operators that are decided before it, in that order."""
        orders = [
            tuple(
                self.place[passed.operator]
                for passed in self.segments[:end]
                if passed.operator is not None
            )
            for end in range(len(self.segments) + 1)
        ]
        return tuple(orders)

    @cached_property
    def _groups(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Symbol and places of the operators that share one part of a name."""
        groups = itertools.groupby(
            range(len(self.operators)), key=lambda at: self.operators[at].symbol
        )
        return tuple((symbol, tuple(places)) for symbol, places in groups)

    @cached_property
    def _form(self) -> re.Pattern[str]:
        """Of the names of paths: a label of each operator, or none."""
        parts = []
        for symbol, group in self._groups:
            labels = ['|'.join(map(re.escape, self.operators[at].labels)) for at in group]
            parts.append(f'(?:{symbol}({")(".join(labels)})(?:-|$))?')
        return re.compile(''.join(parts))

    @cached_property
    def key_tables(self) -> tuple[KeyTable, ...]:
        """Of each segment: place of the skip that may leave it out, places of the operators that decide its work, and
        its key by their settings, all settings of the last operator before the next of the one before it; None where
        it runs nothing."""
        rows: list[KeyTable] = []
        for segment in self.segments:
            depends_on = tuple(self.place[name] for name in segment.depends_on)
            keys: dict[tuple[int, ...], str | None] = {}
            if segment.keys is not None:
                choices = self.operators[depends_on[0]].settings if depends_on else ()
                keys = {(at,): segment.keys.get(choice) for at, choice in enumerate(choices)}
                rows.append((None, depends_on, keys or {(): None}))
                continue
            for settings in itertools.product(*(range(self.sizes[at]) for at in depends_on)):
                operators = [self.operators[at] for at in depends_on]
                parts = [
                    operator.symbol + operator.labels[index]
                    for operator, index in zip(operators, settings)
                ]
                keys[settings] = segment.name + ('@' + '-'.join(parts) if parts else '')
            name = segment.operator
            is_skip = name and self.operator(name).kind == SKIP
            rows.append((self.place[name] if name and is_skip else None, depends_on, keys))
        return tuple(rows)
