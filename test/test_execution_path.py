import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadline_perception.execution_path import ExecutionPath, PathSpace

SPACE = PathSpace((1, 0, 2), (1.0, 0.5), (1.0, 0.5), (10, 50), 2)
paths = st.sampled_from(list(SPACE))
slots = st.integers(0, len(SPACE.slots))


def test_name_shows_every_choice():
    path = ExecutionPath((False, True, True, False, False), 0.5, 100, 1)
    assert str(path) == 's01100-w0.50-p100-h1'
    assert str(ExecutionPath((True,), 0.25, 10, 0, 0.5)) == 's1-w0.25-f0.50-p10-h0'


@given(paths)
def test_name_is_parsed_back(path):
    assert ExecutionPath.parse(str(path)) == path


@pytest.mark.parametrize('name', ['', 's012-w0.5-p10-h0', 's01-w0.5-h0', 'full', 's01-w0.50-p10-h0 '])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match='expected a form such as'):
        ExecutionPath.parse(name)


@pytest.mark.parametrize('change, message', [
    ({'width': 0.0}, 'width is 0.0'), ({'width': 1.5}, 'width is 1.5'), ({'pyramid_width': -1}, 'pyramid_width is -1'),
    ({'proposals': 0}, 'proposals is 0'), ({'head': -1}, 'head is -1')])
def test_values_out_of_range_are_refused(change, message):
    good = {'skip': (False,), 'width': 1.0, 'proposals': 10, 'head': 0}
    with pytest.raises(ValueError, match=message):
        ExecutionPath(**{**good, **change})


@pytest.mark.parametrize('change, message', [
    ({'widths': (0.5, 1.0)}, 'widths'), ({'widths': ()}, 'widths'), ({'pyramid_widths': (0.5,)}, 'pyramid_widths'),
    ({'proposals': (50, 10)}, 'proposals'), ({'heads': 0}, 'heads'), ({'skips_per_stage': ()}, 'skips_per_stage')])
def test_illegal_spaces_are_refused(change, message):
    good = {'skips_per_stage': (1,), 'widths': (1.0,), 'pyramid_widths': (1.0,), 'proposals': (10,), 'heads': 1}
    with pytest.raises(ValueError, match=message):
        PathSpace(**{**good, **change})


@pytest.mark.parametrize('change, message', [
    ({'widths': (1.0, 0.504, 0.5)}, r'^widths is \(1.0, 0.504, 0.5\), expected at most two decimals'),
    ({'pyramid_widths': (1.0, 0.125)}, r'^pyramid_widths is \(1.0, 0.125\), expected at most two decimals')])
def test_widths_that_a_path_name_cannot_show_are_refused(change, message):
    good = {'skips_per_stage': (1,), 'widths': (1.0,), 'pyramid_widths': (1.0,), 'proposals': (10,), 'heads': 1}
    with pytest.raises(ValueError, match=message):
        PathSpace(**{**good, **change})


@given(st.lists(st.integers(1, 99), unique=True, max_size=6))
def test_every_width_of_hundredths_survives_in_the_name(hundredths):
    widths = (1.0, *(number / 100 for number in sorted(hundredths, reverse=True)))
    space = PathSpace((1,), widths, widths, (10,), 1)
    assert [ExecutionPath.parse(str(path)) for path in space] == list(space)


def test_space_holds_each_path_once():
    everything = list(SPACE)
    assert len(everything) == len(set(everything)) == len(SPACE) == 2 ** 3 * 2 * 2 * 2 * 2
    assert all(path in SPACE for path in everything)
    assert ExecutionPath((False,) * 3, 0.75, 10, 0) not in SPACE
    assert SPACE.largest in SPACE and SPACE.smallest in SPACE


def test_slots_are_in_the_order_of_execution():
    assert [slot.name for slot in SPACE.slots] == [
        'pre', 'stage1', 'skip0', 'stage2', 'stage3', 'skip1', 'skip2', 'pyramid', 'rpn', 'proposals', 'head', 'post']
    assert [slot.operator for slot in SPACE.slots if slot.operator] == [
        'width', 'skip0', 'skip1', 'skip2', 'pyramid_width', 'proposals', 'head']


def test_skipped_slot_runs_nothing():
    path = ExecutionPath((False, True, False), 0.5, 50, 1, 0.5)
    assert SPACE.segments(path) == ('pre', 'stage1@w0.50', 'skip0@w0.50', 'stage2@w0.50', 'stage3@w0.50',
                                    'skip2@w0.50', 'pyramid@w0.50-f0.50', 'rpn@f0.50', 'proposals@p50',
                                    'head1@f0.50-p50', 'post@p50')
    assert SPACE.segment(5, path) is None
    assert SPACE.segments(path, 9) == ('proposals@p50', 'head1@f0.50-p50', 'post@p50')


@given(paths, slots)
@settings(max_examples=60)
def test_continuations_are_exactly_the_paths_with_the_same_prefix(path, slot):
    expected = {other for other in SPACE if SPACE.prefix(other, slot) == SPACE.prefix(path, slot)}
    found = list(SPACE.continuations(path, slot))
    assert set(found) == expected and len(found) == len(expected)
