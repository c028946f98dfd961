"""YAML as far as a person needs it for settings: texts, numbers, lists and mappings, each written where it counts.

What makes a small file large or long to read is refused: aliases and anchors, merge keys, tags, deep nesting, numbers
in base 60, keys that occur twice. A date is a text.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from deadline_perception.core.errors import printable
from deadline_perception.core.untrusted_file import MOST_DEPTH, MOST_DIGITS, FileRefused, read_text

MOST_YAML_BYTES = 2**18  # some seconds of a parser written in Python
_PREFIX = 'tag:yaml.org,2002:'
_PLAIN = tuple(f'{_PREFIX}{name}' for name in ('null', 'bool', 'int', 'float', 'str', 'seq', 'map'))


def read_yaml(file: Path, most_bytes: int = MOST_YAML_BYTES) -> object:
    """What a YAML file holds; see `parse_yaml`.

    Raises:
        OSError: it cannot be read.
        FileRefused: it is no ordinary file, too large, no text in UTF-8, or no such YAML.
    """
    return parse_yaml(read_text(file, most_bytes))


def parse_yaml(text: str) -> object:
    """The values of one YAML document; None of an empty one.

    Raises:
        FileRefused: it is no YAML, or holds more than the module says.
    """
    try:
        loader = _PlainLoader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except FileRefused:
        raise
    except RecursionError:
        raise FileRefused(
            f'it is nested too deeply, expected at most {MOST_DEPTH} levels'
        ) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise FileRefused(f'it is no YAML: {printable(error)}') from error


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """See the module."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag in _PLAIN]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    yaml_constructors = {tag: yaml.SafeLoader.yaml_constructors[tag] for tag in _PLAIN}
    _depth = 0

    def compose_node(self, parent: object, index: object) -> object:
        """One value, of which another file may hold no more than this loader takes."""
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent) or getattr(event, 'anchor', None) is not None:
            raise FileRefused(
                f'{_place(event)} is an alias or an anchor, expected values written out'
            )
        if getattr(event, 'tag', None) is not None:
            raise FileRefused(
                f'{_place(event)} has the tag {printable(event.tag, 100)}, expected none'
            )
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise FileRefused(f'it is nested too deeply, expected at most {MOST_DEPTH} levels')
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_scalar(self, node: yaml.Node) -> object:
        """One text or number; `_PLAIN` tags of numbers are taken in decimal, hexadecimal, octal or binary form."""
        value = super().construct_scalar(node)
        if node.tag in (f'{_PREFIX}int', f'{_PREFIX}float'):
            if ':' in value:
                raise FileRefused(
                    f'{_place(node)} is {printable(repr(value), 100)}, which YAML reads as a number in '
                    f'base 60; expected it in quotes, or a decimal number'
                )
            if len(value) > MOST_DIGITS:
                raise FileRefused(
                    f'{_place(node)} is a number of {len(value)} characters, expected at most '
                    f'{MOST_DIGITS}'
                )
        return value

    def construct_mapping(self, node: yaml.Node, deep: bool = False) -> dict[object, object]:
        """A mapping whose keys are texts or numbers, each once."""
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise FileRefused(
                    f'{_place(key)} is a list or a mapping as a key, expected a text or a number'
                )
            if key.value == '<<' and key.style is None:
                raise FileRefused(f'{_place(key)} is a merge key, expected values written out')
            name = self.construct_object(key)
            if name in seen:
                raise FileRefused(
                    f'{_place(key)} is the key {printable(repr(name), 100)} again, expected each once'
                )
            seen.add(name)
        return super().construct_mapping(node, deep)


def _place(node: yaml.Node) -> str:
    return f'line {node.start_mark.line + 1}'
