"""Operations and bytes against counts made by hand."""

from group_norm import GroupNormShape


def test_counts_of_a_group_norm() -> None:
    layer = GroupNormShape(channels=8, groups=4, height=3, width=5)
    assert (layer.elements, layer.operations) == (120, 360)
    assert layer.load_bytes == 4 * (240 + 16)
    assert layer.store_bytes == 4 * 120
    assert layer.family == 'group_norm'
