"""Fault injection judges what the nodes promise, with real nodes on the cheapest stand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deadline_perception.core.stopwatch import now_ms
from deadline_perception.networks.passes import PassesNetwork

pytest.importorskip('rclpy')


@pytest.fixture(scope='module')
def faults(load_benchmark):
    return load_benchmark('faults')


def fault_named(faults, name):
    return next(fault for fault in faults.FAULTS if fault.name == name)


def test_every_fault_has_a_name_of_its_own_and_an_expectation(faults):
    names = [fault.name for fault in faults.FAULTS]
    assert len(names) == len(set(names)) >= 60
    for fault in faults.FAULTS:
        assert fault.does and fault.stand in faults.STANDS, fault.name
        assert fault.images is not faults.Images.NONE or fault.speed or fault.inflict, (
            f'{fault.name} expects nothing'
        )
        assert fault.feed or fault.inflict or 'image' in fault.does, f'{fault.name} does nothing'


def test_a_struck_network_fails_as_ordered(load_benchmark, tiny_network, tmp_path, monkeypatch):
    points = load_benchmark('fault_points')
    for owner, name in (
        (points.image_message, 'to_bgr'),
        (PassesNetwork, 'start'),
        (points.Publisher, 'publish'),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))  # which puts it back
    (tmp_path / 'orders.json').write_text(
        '{"network": {"calls": 1, "hang_s": 0.0, "error": "out of memory"}}'
    )
    points.lay(points.Orders(tmp_path / 'orders.json'))
    smallest = tiny_network.path_space.smallest
    network = PassesNetwork(tiny_network, tiny_network, {'small': smallest})
    run = network.start(np.zeros((64, 96, 3), np.uint8), network.path_space.smallest)
    with pytest.raises(RuntimeError, match='out of memory'):
        run.run_segment(now_ms())
    assert run.run_segment(now_ms()) >= 0.0 and run.segment == 1


@pytest.mark.slow
def test_real_nodes_withstand_a_silent_speed_and_a_wrong_expectation_fails(faults):
    silent = fault_named(faults, 'speed silent')
    wrong = replace(silent, name='speed silent and known', speed='known')
    verdicts = faults.inflict_all(
        [silent, wrong],
        Path('profile.json'),
        lambda fault, verdict: None,
    )
    assert [verdict.fault for verdict in verdicts] == [silent.name, wrong.name]
    assert verdicts[0].why == []
    assert all(verdict.survived for verdict in verdicts) and verdicts[0].recovered_s is not None
    assert 'budgets say that the speed is unknown' in verdicts[1].why[0]
