import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from path_spaces import BOTH, space_of

from deadline_perception.core.execution_path import SCALE
from deadline_perception.networks.multi_path.declaration import scale_of, scaled_size
from deadline_perception.networks.multi_path.dense.configuration import STREET

SPACE = space_of(1, 0, 2, widths=BOTH, pyramid_widths=BOTH, proposals=(10, 50), heads=2)


def test_every_shipped_name_is_read_and_printed_back(repository):
    names = json.loads((repository / 'models' / 'street.quality.json').read_text())['paths']
    assert len(names) > 20 and [str(STREET.path_space.parse(name)) for name in names] == list(names)


def test_segments_are_in_the_order_of_execution_and_each_decides_its_operator():
    assert [segment.name for segment in SPACE.segments] == (
        'pre stage1 skip0 stage2 stage3 skip1 skip2 pyramid rpn proposals regions head post'.split()
    )
    assert [segment.operator for segment in SPACE.segments if segment.operator] == (
        'width skip0 skip1 skip2 pyramid_width proposals head'.split()
    )
    assert ' '.join(SPACE.keys(SPACE.parse('s010-w0.50-f0.50-p50-h1'))) == (
        'pre stage1@w0.50 skip0@w0.50 stage2@w0.50 stage3@w0.50 skip2@w0.50 pyramid@w0.50-f0.50 '
        'rpn@f0.50 proposals@p50 regions@f0.50-p50 head@h1-f0.50-p50 post@p50'
    )


def test_scale_is_decided_first_and_unnamed_at_the_full_size():
    space = space_of(1, scales=(1.0, 0.67, 0.5))
    assert space.segments[0].operator == 'scale'
    assert space.of_kind(SCALE)[0].settings == (0.5, 0.67, 1.0)
    path = space.parse('r0.67-s1-w1.00-p10-h0')
    assert str(space.largest) == 's0-w1.00-p10-h0'
    assert (scale_of(space.largest), scale_of(path), scale_of(SPACE.smallest)) == (1.0, 0.67, 1.0)
    assert ' '.join(space.keys(path)) == (
        'pre@r0.67 stage1@r0.67-w1.00 pyramid@r0.67-w1.00-f1.00 rpn@r0.67-f1.00 '
        'proposals@r0.67-p10 regions@r0.67-f1.00-p10 head@h0-f1.00-p10 post@r0.67-p10'
    )


def test_kept_groups_and_labels_leave_the_names_of_paths_and_segments_as_they_are():
    free = replace(STREET, kept_groups=(), head_labels=(), heads=2 * STREET.heads)
    kept = replace(STREET, kept_groups=(0, 2, 4), head_labels=('0', '2'))
    wide, space = free.path_space, kept.path_space
    assert [operator.name for operator in space.operators] == (
        'scale skip1 skip3 width proposals head'.split()
    )
    same = [path for path in wide if str(path)[-1] in '02' and not _skips(path, '024')]
    assert [str(path) for path in space] == [str(path) for path in same]
    for path, other in zip(space, same):
        assert space.parse(str(path)) == path and space.keys(path) == wide.keys(other)


def _skips(path, groups):
    return any(path[f'skip{number}'] == 'skip' for number in groups)


def test_sizes_are_scaled_to_multiples_of_the_largest_stride():
    assert [scaled_size((384, 640), scale) for scale in (1.0, 0.83, 0.67, 0.5)] == [
        (384, 640),
        (320, 544),
        (256, 416),
        (192, 320),
    ]
    assert scaled_size((32, 64), 0.1) == (32, 32)


@given(st.lists(st.integers(1, 99), unique=True, max_size=6))
def test_every_width_of_hundredths_survives_in_the_name(hundredths):
    widths = (1.0, *(number / 100 for number in sorted(hundredths, reverse=True)))
    space = space_of(1, widths=widths, pyramid_widths=widths)
    assert [space.parse(str(path)) for path in space] == list(space)


@pytest.mark.parametrize(
    'change, message',
    [
        ({'widths': (0.5, 1.0)}, 'widths is'),
        ({'widths': ()}, 'widths is'),
        ({'widths': (1.0, 0.0)}, 'widths is'),
        ({'pyramid_widths': (0.5,)}, 'pyramid_widths is'),
        ({'proposals': (50, 10)}, 'proposals is'),
        ({'proposals': ()}, 'proposals is'),
        ({'heads': 0}, 'heads is 0'),
        ({'scales': (1.0, 0.125)}, 'scales is'),
        ({'skips_per_stage': (1, -1)}, 'skips_per_stage is'),
        ({'widths': (1.0, 0.504, 0.5)}, '^widths is .*, expected at most two decimals'),
    ],
)
def test_impossible_choices_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        space_of(1, **change)
