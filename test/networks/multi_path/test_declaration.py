import pytest
from path_spaces import BOTH, space_of

SPACE = space_of(1, 0, 2, widths=BOTH, pyramid_widths=BOTH, proposals=(10, 50), heads=2)


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


@pytest.mark.parametrize(
    'change, message',
    [
        ({'widths': (0.5, 1.0)}, 'widths is'),
        ({'pyramid_widths': (0.5,)}, 'pyramid_widths is'),
        ({'proposals': (50, 10)}, 'proposals is'),
        ({'heads': 0}, 'heads is 0'),
        ({'scales': (1.0, 0.125)}, 'scales is'),
        ({'skips_per_stage': (1, -1)}, 'skips_per_stage is'),
        ({'widths': (1.0, 0.504, 0.5)}, '^widths is .*, expected at most two decimals'),
    ],
)
def test_impossible_choices_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        space_of(1, **change)
