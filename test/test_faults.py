"""Fault injection judges what the nodes promise, with real nodes on the cheapest stand."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip('rclpy')


@pytest.fixture(scope='module')
def faults(load_benchmark):
    return load_benchmark('faults')


def test_every_fault_has_a_name_of_its_own_and_an_expectation(faults):
    names = [fault.name for fault in faults.FAULTS]
    assert len(names) == len(set(names)) >= 60
    for fault in faults.FAULTS:
        assert fault.does and fault.stand in faults.STANDS, fault.name
        assert fault.images is not faults.Images.NONE or fault.speed or fault.inflict, (
            f'{fault.name} expects nothing'
        )
        assert fault.feed or fault.inflict or 'image' in fault.does, f'{fault.name} does nothing'


@pytest.mark.slow
def test_real_nodes_withstand_a_silent_speed_and_a_wrong_expectation_fails(faults):
    silent = next(fault for fault in faults.FAULTS if fault.name == 'speed silent')
    wrong = replace(silent, name='speed silent and known', speed='known')
    verdicts = faults.inflict_all([silent, wrong], Path('profile.json'), lambda *_: None)
    assert [verdict.fault for verdict in verdicts] == [silent.name, wrong.name]
    assert verdicts[0].why == []
    assert all(verdict.survived for verdict in verdicts) and verdicts[0].recovered_s is not None
    assert 'budgets say that the speed is unknown' in verdicts[1].why[0]
