import json
from dataclasses import asdict, replace

import pytest

from deadline_perception.core.json_file import JsonFileError
from deadline_perception.extras.configuration_file import find_configuration
from deadline_perception.extras.faster_rcnn.configuration import COMPACT, ORIN, PAPER
from deadline_perception.networks.multi_path.configuration import read_shape
from deadline_perception.networks.multi_path.shape import HeadConfig


@pytest.mark.parametrize(
    'base, change, message',
    [
        (COMPACT, {'name': 'x' * 10**6}, 'configuration.name is .{30}, expected'),
        (COMPACT, {'input_size': (380, 640)}, r'\(380, 640\) px, expected multiples of 32'),
        (COMPACT, {'stage_channels': (64, 128)}, 'expected four stages'),
        (COMPACT, {'kept_blocks': (1, 0, 1, 1)}, 'kept_blocks is'),
        (COMPACT, {'skip_groups': ((), (), (0,), ())}, 'expected at least 1 block in each group'),
        (COMPACT, {'nms_candidates': 10**6}, 'is 1000000, expected at most 10000'),
        (COMPACT, {'anchor_sizes_px': ((8,), (8,), (8,), (8, 9))}, 'as many sizes above 0 px'),
        (COMPACT, {'stem_channels': 20}, '20 channels at width 1.0 are no multiple of 8'),
        (COMPACT, {'stem_channels': 10**4000}, 'channels is 1000.*, expected at most 10000'),
        (ORIN, {'stage_channels': (258, 512, 1024, 2048)}, 'multiples of 4 in bottleneck stages'),
        (ORIN, {'norm_group_channels': 0}, 'expected one of them to be at least 1'),
        (PAPER, {'pyramid_channels': 48}, '48 channels are no multiple of 32, the number of norm'),
        (COMPACT, {'skip_groups': ((1,) * 5,) * 4}, 'number of paths is 268435456, expected at'),
        (COMPACT, {'skip_groups': ((1,), (997,), (), ())}, 'number of blocks is 1002, expected'),
        (COMPACT, {'heads': (HeadConfig(500, (8,) * 501),)}, 'number of head layers is 1001'),
        (COMPACT, {'widths': tuple(1 - i / 100 for i in range(17))}, 'number of widths is 17'),
        (COMPACT, {'proposals': (1, 10**6)}, 'largest number of proposals is 1000000'),
        (COMPACT, {'input_size': (4096, 8192)}, 'number of anchors is 11184810, expected at most'),
        (COMPACT, {'pyramid_channels': 1024, 'proposals': (9000,)}, 'features is 451584000'),
        (COMPACT, {'proposals': (5, 5)}, 'expected ascending counts'),
        (COMPACT, {'norm': 'batch'}, "norm is 'batch', expected one of group, frozen"),
        (COMPACT, {'scales': (1.0, 0.03)}, 'of 384x640 px .* expected distinct sizes and sides of'),
    ],
)
def test_impossible_shapes_are_refused(base, change, message):
    with pytest.raises(ValueError, match=message):
        read_shape(json.loads(replace(base, **change).to_json()))


def test_impossible_heads_are_refused():
    for change, message in (
        ({'convolutions': -1}, r'heads\[0\].convolutions is -1, expected'),
        ({'fully_connected': []}, r'heads\[0\].fully_connected is \[\], expected'),
        ({'fully_connected': [0]}, r'fully_connected\[0\] is 0, expected'),
    ):
        record = json.loads(COMPACT.to_json())
        record['heads'][0] |= change
        with pytest.raises(ValueError, match=message):
            read_shape(record)


def test_configurations_of_earlier_versions_have_group_norms_and_one_scale():
    """And the identity that their weights files name."""
    older = replace(COMPACT, norm='group', scales=(1.0,))
    record = json.loads(older.to_json())
    del record['norm'], record['scales']
    assert read_shape(record) == older and list(older.identity) == list(record)
    assert set(COMPACT.identity) - set(record) == {'norm', 'scales'}


def test_a_configuration_that_is_none_is_named(tmp_path):
    kinds = 'expected one of compact, orin, paper, street or a JSON file'
    with pytest.raises(ValueError, match=f"configuration is 'huge', {kinds}"):
        find_configuration('huge')
    file = tmp_path / 'broken.json'
    for change, message in (
        ({'skip_groups': json.loads('[' * 500 + ']' * 500)}, 'cannot be (used|read): .*expected'),
        ({'skip_groups': [[1] * 10**6, [], [], []]}, 'cannot be (used|read): .*expected'),
        ({'norm_groups': 7}, 'cannot be used: .* no multiple of 7'),
    ):
        file.write_text(json.dumps(asdict(COMPACT) | change))
        with pytest.raises(JsonFileError, match=f'broken.json {message}') as caught:
            find_configuration(str(file))
        assert len(str(caught.value)) < 1000
