"""Networks that are in memory once."""

import gc
import os
from dataclasses import replace

import pytest
from made_up_network import write_network
from waiting import wait

from deadline_perception.deadline_detector import DeadlineDetector
from deadline_perception.extras.several_networks.nested_task import load_nested_task
from deadline_perception.extras.several_networks.task_file import TaskRequest
from deadline_perception.runtime.executor import Executor
from deadline_perception.runtime.loading import NetworkOptions
from deadline_perception.runtime.resident_networks import ResidentNetworks


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp('resident')
    write_network(folder)
    return folder


@pytest.fixture
def options(folder):
    return NetworkOptions(
        str(folder / 'good.safetensors'), profile=str(folder / 'good.json'), engine='eager'
    )


def test_a_file_is_loaded_once_while_somebody_has_it_and_stays_as_it_was(folder):
    networks, weights = ResidentNetworks(), folder / 'good.safetensors'
    first, _ = networks.load(weights, 'cpu', folder, 'eager')
    assert networks.load(str(weights), 'cpu', folder, 'eager') == (first, weights.resolve())
    assert networks.load('good', 'cpu', folder, 'eager')[0] is not first, 'known by another name'
    paths = [first.path_space.smallest]
    assert networks.take_cold(first, paths) and not networks.take_cold(first, paths)
    assert networks.take_cold(first, [first.path_space.largest])
    os.utime(weights, (1.0, 1.0))
    other = networks.load(weights, 'cpu', folder, 'eager')[0]
    assert other is not first, 'of a file that has changed'
    networks.clear()
    assert networks.load(weights, 'cpu', folder, 'eager')[0] is not other


def test_detectors_of_one_file_share_network_and_thread_and_nothing_else(options):
    with DeadlineDetector(options) as first:
        executor, network = first._executor, first.loaded.task.network
        with (
            DeadlineDetector(replace(options, target_miss_probability=0.1)) as second,
            DeadlineDetector(replace(options, threads=options.threads + 1)) as other,
            Executor() as own,
            DeadlineDetector(options, executor=own) as apart,
        ):
            tasks = [detector.loaded.task for detector in (first, second)]
            assert second._executor is executor and tasks[1].network is network
            assert tasks[0].policy is not tasks[1].policy and tasks[0].times is not tasks[1].times
            assert tasks[1].times.calibrator.alpha == 0.1 != tasks[0].times.calibrator.alpha
            for detector in (other, apart):
                assert detector._executor is not executor
                assert detector.loaded.task.network is not network
            with second.stream():
                assert executor.watchdog is not None
            assert executor.watchdog is None and not executor.mailbox.closed
        second.close()  # once more, which gives nothing back
        assert not executor.mailbox.closed
    assert executor.mailbox.closed
    with DeadlineDetector(options) as anew:
        assert anew._executor is not executor


def test_a_dropped_detector_leaves_the_others_their_thread(options):
    with DeadlineDetector(options) as kept:
        dropped = DeadlineDetector(options)
        assert dropped._executor is kept._executor
        with pytest.warns(ResourceWarning, match='without close') as warned:
            del dropped
            wait(lambda: gc.collect() >= 0 and warned.list)  # a thread may have it for a moment
        with kept.stream():
            assert not kept.fault


def test_tasks_of_the_scheduler_share_the_network_of_one_file(options, folder):
    networks = ResidentNetworks()
    asked = [
        TaskRequest(name, options.model, (100.0,), profile=options.profile)
        for name in ('front', 'rear')
    ]
    given = {'engine': 'eager', 'networks': networks}
    tasks = [load_nested_task(request, folder, **given) for request in asked]
    assert tasks[0].network is tasks[1].network and tasks[0].bound is not tasks[1].bound
