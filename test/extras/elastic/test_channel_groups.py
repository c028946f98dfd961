from deadline_perception.extras.elastic.channel_groups import (
    ChannelGroup,
    Layout,
    Part,
    tie,
    tie_layouts,
)


def test_tied_groups_keep_the_same_units_and_name_the_reason_first():
    one, other = ChannelGroup(12, names=['a']), ChannelGroup(8, names=['b'])
    third = ChannelGroup(12, 'it is first', ['c'])
    tie(one, other)
    tie(other, third)
    tie(third, one)
    assert one.root is other.root is third.root
    expected = (4, 'it is first', ['c', 'a', 'b'])
    assert (one.root.units, one.root.whole_because, one.root.names) == expected


def concatenations(*sizes):
    """Four groups, after two are tied to the two others."""
    groups = [ChannelGroup(size) for size in sizes]
    parts = [Part(group, group.units) for group in groups]
    tie_layouts(Layout(1, tuple(parts[:2])), Layout(1, tuple(parts[2:])), 'why')
    return groups


def test_equal_concatenations_are_tied_part_by_part_and_others_stay_whole():
    assert [group.whole_because for group in concatenations(4, 8, 6, 6)] == ['why'] * 4
    groups = concatenations(4, 8, 4, 8)
    assert groups[0].root is groups[2].root and groups[1].root is groups[3].root
    assert groups[0].root is not groups[1].root
