"""The command as a user calls it, on a family that is small enough to be measured within a second."""

from dataclasses import replace

import construct
import pytest
from construction import activation_bytes, building_blocks

from deadline_perception.extras.configuration_file import find_configuration, save_configuration
from deadline_perception.extras.faster_rcnn.configuration import COMPACT
from deadline_perception.extras.weights_writer import build_detector
from deadline_perception.networks.multi_path.shape import HeadConfig
from deadline_perception.tools.command_line import run_alone

FAMILY = replace(
    COMPACT,
    name='small',
    input_size=(64, 64),
    stem_channels=16,
    stage_channels=(16, 32, 32, 64),
    pyramid_channels=16,
    norm_group_channels=8,
    widths=(1.0, 0.5),
    scales=(1.0,),
    proposals=(5, 10),
    heads=(HeadConfig(0, (8,)), HeadConfig(1, (16,))),
)


@pytest.fixture
def refusal(capsys):
    """Runs the script with arguments, which ends with 1; gives the one line that it says."""

    def run(command, *words):
        status = run_alone(command, [*map(str, words)])
        said = capsys.readouterr().err
        assert status == 1 and said.count('\n') == 1, said
        return said

    return run


@pytest.fixture
def family(tmp_path, monkeypatch):
    monkeypatch.setenv('DEADLINE_PERCEPTION_RESTARTED', '1')  # stay in this process
    monkeypatch.setattr(construct, '_ROUNDS', 2)
    # a quiet machine, whatever runs beside the test
    monkeypatch.setattr(construct, 'watch_interruptions', lambda seconds: ([], 1000.0 * seconds))
    monkeypatch.setattr(construct, 'is_installed', lambda: False)
    monkeypatch.setattr(construct, 'SKIP_OPERATORS', 3)
    save_configuration(FAMILY, tmp_path / 'small.json')
    return ['--family', str(tmp_path / 'small.json'), '--out', str(tmp_path / 'out' / 'built.json')]


def test_writes_a_configuration_that_trains(family, tmp_path, capsys):
    assert run_alone(construct, [*family, '--deadline-ms', '1000000', '--memory-mb', '500']) == 0
    shown = capsys.readouterr().out
    assert 'ms at worst predicted' in shown and 'ms measured' in shown and 'built.json' in shown
    built = find_configuration(str(tmp_path / 'out' / 'built.json'))
    assert built.name == 'small-1000000ms-500mb'
    assert len(built.path_space.of_kind('skip')) <= 3  # fewer where a busy machine stalled a part
    found = [kept + sum(groups) for kept, groups in zip(built.kept_blocks, built.skip_groups)]
    assert found == [3, 4, 6, 3]
    assert built.heads == FAMILY.heads
    assert build_detector(str(tmp_path / 'out' / 'built.json'), ('vehicle',)).config == built


def test_parts_add_up_to_the_whole_network():
    detector = build_detector(building_blocks(FAMILY), ('vehicle',))
    parts = construct.measure_bytes(detector)
    assert sum(parts.values()) == construct.weight_bytes(detector)
    once = sum(parameter.nbytes for parameter in detector.parameters())
    assert sum(parts.values()) > once, 'narrow copies count'
    space = detector.path_space
    assert set(construct.measure_times(detector)) >= set(space.keys(space.largest))


def test_what_cannot_fit_is_told_in_one_line(family, refusal, tmp_path):
    features_mb = activation_bytes(replace(FAMILY, proposals=(5,))) / 1e6
    error = refusal(construct, *family, '--deadline-ms', '1000000', '--memory-mb', features_mb)
    assert "no network of family 'small' fits" in error and 'the smallest takes' in error
    assert not (tmp_path / 'out').exists()


@pytest.mark.parametrize(
    'limits, message',
    [
        (('0', '100'), 'deadline is 0.0 ms, expected'),
        (('100', '-3'), 'memory is -3.0 MB, expected'),
        (('100', '100', '--out', '.'), '--out is ., which is a folder'),
    ],
)
def test_limits_that_are_none_are_refused_before_measuring(
    family, refusal, limits, message, monkeypatch
):
    monkeypatch.setattr(construct, 'measure_bytes', lambda detector: pytest.fail('measured'))
    words = '--deadline-ms', limits[0], '--memory-mb', *limits[1:]
    assert message in refusal(construct, *family, *words)
