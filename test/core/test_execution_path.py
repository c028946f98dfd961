import math
import string

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from invented_networks import CLASSIFIER, MAGNIFIER, SINGLE

from deadline_perception.core.execution_path import (
    SKIP,
    ExecutionPath,
    Operator,
    PathSpace,
    Segment,
)

# A depth that may be skipped in two places, a size whose largest is left unnamed, and a choice among unordered ways.
SPACE = PathSpace(
    (
        Operator('deep0', SKIP, ('skip', 'run'), 's', labels=('1', '0')),
        Operator('deep1', SKIP, ('skip', 'run'), 's', labels=('1', '0')),
        Operator('size', 'scale', (0.25, 0.5, 1.0), 'r', unnamed=2),
        Operator('way', 'switch', ('b', 'a'), 'w'),
    ),
    (
        Segment('begin', 'pre'),
        Segment('resize', 'pre', 'size', ('size',)),
        Segment('deep0', 'body', 'deep0', ('size',)),
        Segment('deep1', 'body', 'deep1'),
        Segment('end', 'head', 'way', ('way', 'size')),
    ),
)


def _distinct(elements, count: int):
    return st.lists(elements, min_size=count, max_size=count, unique=True)


def _operator(draw, number: int, symbol: str, length: int, alone: bool) -> Operator:
    kind = draw(st.sampled_from((SKIP, 'scale', 'magnifier')))
    count = 2 if kind == SKIP else draw(st.integers(1, 3))
    hundredths = st.integers(0, 300).map(lambda number: number / 100)
    values = draw(st.one_of(_distinct(st.integers(-20, 500), count), _distinct(hundredths, count)))
    letters = string.ascii_letters + string.digits + '._'
    labels = draw(_distinct(st.text(letters, min_size=length, max_size=length), count))
    unlabelled = alone and min(values) >= 0 and draw(st.booleans())
    labels = () if unlabelled else labels
    return Operator(f'operator{number}', kind, sorted(values), symbol, labels, draw(st.booleans()))


@st.composite
def spaces(draw) -> PathSpace:
    """Any declaration: operators alone or side by side under one symbol, segments that depend on some of them."""
    operators = []
    symbols = st.lists(st.sampled_from(('a', 'b', 'cd', 'ce', 's')), max_size=3, unique=True)
    for symbol in draw(symbols):
        shared = draw(st.integers(1, 2))
        for _ in range(shared):
            length = draw(st.integers(1, 3))
            operators.append(_operator(draw, len(operators), symbol, length, shared == 1))
    names = draw(st.permutations([operator.name for operator in operators]))
    segments = [Segment('first', 'all')]
    for number, name in enumerate(names):
        depends_on = draw(st.lists(st.sampled_from(names[: number + 1]), unique=True))
        segments.append(Segment(f'segment{number}', 'all', name, tuple(depends_on)))
    return PathSpace(tuple(operators), tuple(segments))


@settings(max_examples=50, deadline=None)
@given(space=spaces(), data=st.data())
def test_every_declaration_names_its_paths_reads_them_back_and_knows_who_runs_a_key(space, data):
    assume(len(space) <= 100)
    paths = list(space)
    count = math.prod(len(operator.settings) for operator in space.operators)
    assert len(paths) == len(set(paths)) == len(space) == count
    assert paths == sorted(paths) and paths[0] == space.smallest and paths[-1] == space.largest
    path = data.draw(st.sampled_from(paths))
    assert space.parse(str(path)) == path and path in space
    same = {operator.name: path[operator.name] for operator in space.operators}
    assert path.replace(**same) == path
    carriers = space.carriers()
    assert set(carriers) == {key for path in paths for key in space.keys(path)}
    for key, needed in carriers.items():
        indices = tuple(needed.get(at, index) for at, index in enumerate(path.settings))
        assert key in space.keys(ExecutionPath(indices, space))


def test_names_worked_out_by_hand():
    paths = SPACE.smallest, SPACE.largest, SPACE.largest.replace(deep1='skip', size=0.5)
    assert list(map(str, paths)) == ['s11-r0.25-wb', 's00-wa', 's01-r0.50-wa']
    assert str(MAGNIFIER.parse('ztele-n4')) == 'ztele-n4' and str(CLASSIFIER.largest) == 'l4'
    assert [str(path) for path in SINGLE] == ['whole']
    assert SINGLE.parse('whole') == SINGLE.largest == SINGLE.smallest
    size = Operator('size', 'scale', (0.5, 1.0), 'r', unnamed=1)
    unsaid = PathSpace((size,), (Segment('all', 'all', 'size'),))
    assert [str(path) for path in unsaid] == ['r0.50', 'whole']
    assert unsaid.parse('whole') == unsaid.largest


def test_keys_name_what_decides_the_work_and_a_skipped_segment_has_none():
    keys = SPACE.keys(SPACE.parse('s01-r0.50-wb'))
    assert keys == ('begin', 'resize@r0.50', 'deep0@r0.50', 'end@wb-r0.50')
    assert SPACE.key(3, SPACE.parse('s01-wb')) is None
    assert SPACE.key(3, SPACE.parse('s00-wb')) == 'deep1'
    assert SPACE.largest.keys_by_segment[3:] == ('deep1', 'end@wa-r1.00')
    # To run a skip's segment, the skip must be set to run; `size` decides the first one's work.
    assert SPACE.carriers()['deep0@r0.50'] == {0: 1, 2: 1} and SPACE.carriers()['deep1'] == {1: 1}
    assert SPACE.phases == ('pre', 'body', 'head')


# Two ways, of which one has an operator of its own.
ALTERNATIVES = PathSpace(
    (
        Operator('model', 'model', ('plain', 'wide'), 'm'),
        Operator('width', 'width', (0.5, 1.0), 'w'),
        Operator('deep', SKIP, ('skip', 'run'), 's', labels=('1', '0')),
    ),
    (
        Segment('choose', 'pre', 'model'),
        Segment('plain', 'body', only_on=('model', 'plain')),
        Segment('wide', 'body', 'width', ('width',), only_on=('model', 'wide')),
        Segment('deep', 'body', 'deep', ('width',), only_on=('model', 'wide')),
        Segment('end', 'head', None, ('model',)),
    ),
)


def test_a_path_has_what_its_alternative_has_and_pins_the_rest():
    paths = list(ALTERNATIVES)
    wide = 'mwide-w0.50-s1 mwide-w0.50-s0 mwide-w1.00-s1 mwide-w1.00-s0'
    assert list(map(str, paths)) == ['mplain', *wide.split()]
    assert len(ALTERNATIVES) == 5 == len(set(paths))
    assert [ALTERNATIVES.parse(str(path)) for path in paths] == paths
    plain = ALTERNATIVES.parse('mplain')
    assert plain == ALTERNATIVES.smallest == ExecutionPath((0, 0, 0), ALTERNATIVES)
    assert plain.settings == (0, 1, 1)
    assert ALTERNATIVES.keys(plain) == ('choose', 'plain', 'end@mplain')
    keys = ALTERNATIVES.keys(ALTERNATIVES.parse('mwide-w0.50-s1'))
    assert keys == ('choose', 'wide@w0.50', 'end@mwide')
    assert [number for number in range(5) if ALTERNATIVES.applies(number, plain)] == [0, 1, 4]
    assert plain.replace(width=0.5) == plain and plain.replace(model='wide') == ALTERNATIVES.largest
    assert ALTERNATIVES.carriers()['deep@w0.50'] == {0: 1, 1: 0, 2: 1}
    assert not SPACE.has_alternatives and SPACE.applies(3, SPACE.largest)


@pytest.mark.parametrize('only_on', [('way', 'x'), ('model', 'other'), ('model',)])
def test_alternatives_that_are_not_decided_before_are_refused(only_on):
    segments = (
        Segment('choose', 'pre', 'model'),
        Segment('wide', 'body', 'width', only_on=('model', 'wide')),
        Segment('end', 'head', only_on=only_on),
    )
    with pytest.raises(ValueError, match='segment end runs only on'):
        PathSpace(ALTERNATIVES.operators[:2], segments)


def test_a_path_knows_its_settings_and_changes_by_name():
    path = SPACE.largest.replace(size=0.25, way='b')
    assert (path['size'], path['way'], path['deep0']) == (0.25, 'b', 'run')
    assert path.settings == (1, 1, 0, 0)
    for change, message in (
        ({'width': 0.5}, "operator is 'width', expected one of deep0, deep1, size, way"),
        ({'size': 0.3}, 'size is 0.3, expected one of 0.25, 0.50, 1.00'),
    ):
        with pytest.raises(ValueError, match=message):
            path.replace(**change)
    message = r'expected an index for each of 4 operators, below \(2, 2, 3, 2\)'
    for indices in ((), (0, 0, 0), (2, 0, 0, 0), (0, 0, 0, -1), (0, 0, 0, 0, 0)):
        with pytest.raises(ValueError, match=message):
            ExecutionPath(indices, SPACE)


@pytest.mark.parametrize(
    'change, message',
    [
        ({'name': 'the size'}, "operator 'the size' of kind"),
        ({'kind': ''}, "of kind ''"),
        ({'symbol': 'R'}, "symbol 'R'"),
        ({'settings': (2, 1)}, r'are \(2, 1\), expected at least one, ascending in work'),
        ({'settings': (0.501, 0.502)}, 'expected a distinct label'),
        ({'labels': ('x', 'y-z')}, 'expected a distinct label of letters'),
    ],
)
def test_impossible_operators_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Operator(**{'name': 'size', 'kind': 'scale', 'settings': (1, 2), 'symbol': 'r'} | change)


ONE, OTHER = Operator('one', 'scale', (1, 2), 'a'), Operator('other', 'scale', (1, 2), 'b')
A, B, C = Segment('a', 'all', 'one'), Segment('b', 'all', 'other'), Segment('c', 'all', 'more')


def more(symbol, most=2):
    return Operator('more', 'scale', (1, most), symbol)


@pytest.mark.parametrize(
    'operators, segments, message',
    [
        ((ONE, ONE), (A,), 'operators are one, one, expected distinct names'),
        ((ONE,), (A, A), 'segments are a, a, expected distinct names'),
        ((), (), 'at least one segment'),
        ((ONE,), (Segment('a', 'all'),), r"decide \[\], expected each of the operators \['one'\]"),
        ((ONE, OTHER), (Segment('a', 'all', 'one', ('other',)), B), 'segment a depends on .*other'),
        ((ONE, OTHER, more('a')), (A, B, C), r"symbols of operators are \['a', 'a', 'b'\]"),
        ((ONE, more('ab')), (A, C), r"symbols of operators are \['a', 'ab'\], expected none to"),
        ((ONE, more('a', 10)), (A, C), r"symbol 'a' has labels of \[1, 2\] letters"),
    ],
)
def test_impossible_declarations_are_refused(operators, segments, message):
    with pytest.raises(ValueError, match=message):
        PathSpace(operators, segments)
