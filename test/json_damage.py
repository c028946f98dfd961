"""Damages JSON files at random, and tells a clean refusal from a crash."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from deadline_perception.extras.data.records import Sequence

fuzzed = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(
        [10**400, -(10**400), 1e308, -1e308, 2**63, 'a\nb', '\x00', '\ud800', 'x' * 5_000]
    ),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


REMOVED = object()


def put(content: object, place: str, value: object) -> None:
    """Changes decoded JSON at a place such as `images.0.id`; `REMOVED` is there no more."""
    *outer, name = (int(key) if key.isdigit() else key for key in place.split('.'))
    for key in outer:
        content = content[key]
    if value is REMOVED:
        del content[name]
    else:
        content[name] = value


@st.composite
def damaged(draw, file: Path) -> None:
    """Writes the file anew with up to three values replaced or removed; what it held at first lies beside it."""
    whole = file.with_name(file.name + '.whole')
    if not whole.exists():
        whole.write_text(file.read_text())
    content = {'': json.loads(whole.read_text())}
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(content))
        holder, key = places[draw(st.integers(0, len(places) - 1))]
        if draw(st.booleans()) and holder is not content:
            del holder[key]
        else:
            holder[key] = draw(_VALUES)
    text = json.dumps(content[''])
    cut = draw(st.none() | st.integers(0, len(text)))
    file.write_text(text[:cut])


def _places(value: object):
    entries = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in list(entries):
        yield value, key
        yield from _places(inner)


def reads_or_refuses_in_one_line(read: Callable[[Path], object], file: Path) -> object | None:
    """What is read; None after a ValueError of one printable line. Anything else is raised."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', UserWarning)
        try:
            return read(file)
        except ValueError as error:
            assert str(error).isprintable() and str(error), error
            return None


def boxes_are_finite(sequence: Sequence) -> bool:
    """Whether every box of every frame can be computed with."""
    return all(
        np.isfinite(frame.ground_truth.boxes_xyxy_px).all()
        for frame in sequence.frames
        if frame.ground_truth is not None
    )
