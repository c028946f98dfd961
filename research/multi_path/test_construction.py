from dataclasses import replace

import pytest
from construction import activation_bytes, construct, place_skips
from hypothesis import given, settings
from hypothesis import strategies as st

from deadline_perception.core.execution_path import SKIP
from deadline_perception.extras.faster_rcnn.configuration import COMPACT, ORIN, PAPER
from deadline_perception.networks.multi_path.shape import HeadConfig

MB = 1e6
FAMILY = replace(
    COMPACT, proposals=(10, 25, 50, 100, 200, 300), heads=(*COMPACT.heads, HeadConfig(4, (256,)))
)
FEATURES = activation_bytes(replace(FAMILY, skip_groups=((),) * 4)) / MB
# Every part takes 1 MB; a further block of the stages takes 1, 2, 3, 4 ms, heads 5, 10, 20 ms, all else together 20 ms.
PARTS = 'stage1 stage2 stage3 stage4 skip0 skip1 skip2 skip3 pyramid rpn head0 head1 head2'
BYTES = dict.fromkeys(PARTS.split(), int(MB))


def _ms(segment: str) -> float:
    if segment.startswith('skip'):
        return 1.0 + int(segment[4])
    if segment.startswith('head'):
        return (5.0, 10.0, 20.0)[int(segment[6])] * int(segment.split('p')[-1]) / 300
    return 20.0 if segment == 'pre' else 0.0


def _construct(deadline_ms, memory_mb=1000.0, **options):
    limits = {'deadline_ms': deadline_ms, 'memory_mb': memory_mb}
    return construct(FAMILY, **limits, predict_ms=_ms, weight_bytes=BYTES, **options)


def _depths(config):
    return tuple(kept + sum(groups) for kept, groups in zip(config.kept_blocks, config.skip_groups))


@pytest.mark.parametrize(
    'deadline_ms, depths',
    [
        (31.0, (2, 1, 1, 1)),  # one block of the first stage
        # + 2 ms; a block of 3 or 4 ms does not fit; a second one of 2 ms does
        (35.0, (2, 3, 1, 1)),
        (40.0, (2, 2, 2, 2)),  # ResNet-18
        (41.0, (3, 2, 2, 2)),  # towards ResNet-34: of the stages that lag, the one whose block fits
    ],
)
def test_blocks_grow_evenly_towards_the_resnets(deadline_ms, depths):
    built = _construct(deadline_ms)
    assert _depths(built.config) == depths and built.longest_ms == deadline_ms


def test_skips_divide_the_time_evenly():
    # One over each stage's blocks saves 2, 6, 15 and 8 ms; the fifth divides the longest.
    assert place_skips((2, 3, 5, 2), (1.0, 2.0, 3.0, 4.0), 5, 0.0) == ((2,), (3,), (2, 3), (2,))
    assert place_skips((2, 3, 5, 2), (1.0, 2.0, 3.0, 4.0), 5, 2.5) == ((), (3,), (2, 3), (1, 1))


def test_skips_of_the_paper_s_network_lie_as_placed_behind_a_first_stage_that_runs_whole():
    assert place_skips((0, 3, 22, 2), (1.0,) * 4, 5, 0.0) == PAPER.skip_groups
    assert place_skips((2, 3, 22, 2), (1.0,) * 4, 5, 0.0) == ((2,), (3,), (11, 11), (2,))


@given(
    deadline_ms=st.floats(20.2, 120.0),
    memory_mb=st.floats(FEATURES + 7.1, FEATURES + 40.0),
    skips=st.integers(0, 8),
)
@settings(max_examples=60, deadline=None)
def test_result_keeps_both_limits_and_no_block_more_would(deadline_ms, memory_mb, skips):
    built = _construct(deadline_ms, memory_mb, skips=skips)
    memory_bytes = built.weight_bytes + built.activation_bytes
    assert built.longest_ms <= deadline_ms and memory_bytes <= memory_mb * MB
    assert len(built.config.path_space.of_kind(SKIP)) <= skips
    for stage, (depth, largest) in enumerate(zip(_depths(built.config), (3, 4, 6, 3))):
        too_slow = built.longest_ms + stage + 1 > deadline_ms
        assert depth == largest or too_slow or memory_bytes + MB > memory_mb * MB


def test_features_are_counted_by_hand():
    config = replace(
        COMPACT,
        input_size=(64, 64),
        scales=(1.0,),
        stem_channels=64,
        pyramid_channels=8,
        proposals=(1,),
        heads=COMPACT.heads[:1],
        widths=(1.0,),
        pyramid_widths=(1.0,),
    )
    # The stem has most: three tensors of 64 channels at 32 x 32, beside the image of 3 channels at 64 x 64.
    assert activation_bytes(config) == 4 * (3 * 64 * 32 * 32 + 3 * 64 * 64)
    assert activation_bytes(PAPER) > activation_bytes(ORIN) > activation_bytes(COMPACT)
