import math
import types
from functools import partialmethod

import pytest
from file_trees import write_tree

from deadline_perception.timing.contention.sensors import (
    CpuTimes,
    Nvml,
    SensorAbsent,
    SensorFault,
    cpu_utilisation,
    find_jetson_gpu,
    open_nvml,
    read_contention,
    read_cpu_times,
    read_jetson_gpu,
    read_pressure,
)

# /proc/stat of a Jetson Orin Nano, abridged.
ORIN_STAT = """cpu  84031 1204 29934 4017721 2610 8121 3316 0 0 0
cpu0 14122 207 5409 668301 431 2127 1519 0 0 0
intr 9183412 0 0 0 0 0 0 0 0 2817441 0 0 0 0 0 0 0 0 0 0
"""
PRESSURE = {
    'proc/pressure/cpu': 'some avg10=3.79 avg60=4.04 avg300=1.17 total=7836561\n'
    'full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n',
    'proc/pressure/memory': 'some avg10=0.00 avg60=0.12 avg300=0.05 total=40213\n'
    'full avg10=0.00 avg60=0.00 avg300=0.00 total=8120\n',
}
JETSON_FILES = [
    'devices/platform/gpu.0/load',
    'devices/gpu.0/load',
    'devices/17000000.ga10b/load',
    'devices/platform/17000000.ga10b/load',
    'devices/17000000.gv11b/load',
    'devices/platform/bus@0/17000000.gpu/load',
    'devices/57000000.gpu/load',
    'class/devfreq/17000000.gpu/device/load',
    'class/devfreq/17000000.ga10b/device/load',
]
GPU = 'sys/devices/platform/bus@0/17000000.gpu/load'  # of the Orin below


@pytest.fixture
def orin(tmp_path):
    """A Jetson Orin: the load file lies below the GPU's own folder, `gpu.0` points there."""
    write_tree(tmp_path, {'proc/stat': ORIN_STAT, GPU: '437\n', **PRESSURE})
    (tmp_path / 'sys/devices/platform/gpu.0').symlink_to('bus@0/17000000.gpu')
    return tmp_path


class RecordedNvml(types.SimpleNamespace):
    """What `pynvml` answered on one machine; an exception as answer is raised."""

    class NVMLError(Exception):
        pass

    def __init__(self, utilisation=None, memory=None, device=object()):
        super().__init__(utilisation=utilisation, memory=memory, device=device)

    def answer(self, name):
        value = getattr(self, name)
        if isinstance(value, Exception):
            raise value
        return value

    def nvmlInit(self):
        pass

    nvmlDeviceGetHandleByIndex = partialmethod(lambda self, index: self.answer('device'))
    nvmlDeviceGetUtilizationRates = partialmethod(lambda self, device: self.answer('utilisation'))
    nvmlDeviceGetMemoryInfo = partialmethod(lambda self, device: self.answer('memory'))


def rates(gpu):
    return types.SimpleNamespace(gpu=gpu, memory=0)


def memory(used, total):
    return types.SimpleNamespace(used=used, total=total, free=total - used)


def look(root, *given, **more):
    """At the sensors of a tree, as a node that has found its Jetson's file does."""
    return read_contention(root, *given, gpu_file=find_jetson_gpu(root), **more)


NOT_SUPPORTED = RecordedNvml.NVMLError('Not Supported')


def test_reads_a_whole_orin_whose_nvml_is_there_and_supports_nothing(orin):
    before = CpuTimes(busy=126_606 - 300, total=4_146_937 - 1000)
    readings = look(orin, before, nvml=Nvml(RecordedNvml(NOT_SUPPORTED, NOT_SUPPORTED)))
    assert readings.cpu_times == CpuTimes(busy=126_606, total=4_146_937)
    assert readings.cpu_utilisation == pytest.approx(0.3)
    assert readings.cpu_pressure == pytest.approx(0.0379)
    assert readings.memory_pressure == 0.0
    assert readings.gpu_utilisation == pytest.approx(0.437)
    assert math.isnan(readings.gpu_memory_used)
    assert readings.sources == ('proc_stat', 'pressure', 'jetson_gpu')
    assert readings.reason == ''


@pytest.mark.parametrize('file', JETSON_FILES)
def test_finds_the_load_of_every_jetson_and_by_patterns_of_ones_own(tmp_path, file):
    assert find_jetson_gpu(tmp_path) is None
    write_tree(tmp_path / 'sys', {'devices/new-board/gpu/busy': '250\n'})
    own = find_jetson_gpu(tmp_path, ['sys/devices/*/gpu/busy'])
    readings = read_contention(tmp_path, gpu_file=own)
    assert readings.gpu_utilisation == 0.25 and readings.sources == ('jetson_gpu',)
    write_tree(tmp_path / 'sys', {file: '55\n'})
    assert read_jetson_gpu(find_jetson_gpu(tmp_path)) == 0.055


@pytest.mark.parametrize('text', ['1001\n', '-3\n', '', 'busy\n', 'nan\n', b'\xff\xfe\x00'])
def test_jetson_load_that_is_impossible_is_not_believed(orin, text):
    write_tree(orin, {GPU: text})
    readings = look(orin)
    assert math.isnan(readings.gpu_utilisation)
    assert 'jetson_gpu' in readings.reason and 'gpu.0/load' in readings.reason


def test_core_times_by_hand_and_their_use_where_time_has_passed_and_counters_advance(tmp_path):
    for line, busy, total in (
        ('10 0 10 80', 20, 100),  # of an old kernel without the later columns
        ('100 0 0 50 25 0 0 25 90 0', 125, 200),  # guest times count once, stolen time is busy
    ):
        write_tree(tmp_path, {'proc/stat': f'cpu  {line}\n'})
        assert read_cpu_times(tmp_path) == CpuTimes(busy, total)
    assert math.isnan(cpu_utilisation(CpuTimes(5, 10), CpuTimes(5, 10)))
    assert cpu_utilisation(CpuTimes(0, 10), CpuTimes(12, 20)) == 1.0
    for before, after, ticks in (((5, 17), (5, 10), 7), ((7, 10), (5, 20), 2)):
        with pytest.raises(SensorFault, match=f'went back by {ticks} ticks'):
            cpu_utilisation(CpuTimes(*before), CpuTimes(*after))


def test_sensors_that_cannot_be_read_are_named_and_the_others_still_count(orin):
    for text, message in (
        ('', 'no line'),
        ('some avg10=x\n', "is 'x'"),
        ('some avg10=101\n', '101'),
    ):
        write_tree(orin, {'proc/pressure/cpu': text})
        with pytest.raises(SensorFault, match=message):
            read_pressure('cpu', orin)
    (orin / 'proc/pressure/cpu').unlink()
    (orin / 'proc/pressure/cpu').mkdir()
    readings = look(orin)
    assert 'cannot be read: Is a directory' in readings.reason
    assert readings.memory_pressure == 0.0 and 'pressure' in readings.sources


def test_a_desktop_gpu_is_read_through_nvml_and_idle_believed_once_it_was_busy(tmp_path):
    library = RecordedNvml(rates(0), NOT_SUPPORTED)
    nvml = Nvml(library)
    assert look(tmp_path, nvml=nvml).reason
    library.utilisation, library.memory = rates(73), memory(6_000, 24_000)
    readings = look(tmp_path, nvml=nvml)
    assert (readings.gpu_utilisation, readings.gpu_memory_used) == (0.73, 0.25)
    assert readings.sources == ('nvml',) and not readings.reason
    library.utilisation, library.memory = rates(0), NOT_SUPPORTED
    readings = look(tmp_path, nvml=nvml)
    assert readings.gpu_utilisation == 0.0 and not readings.reason


@pytest.mark.parametrize(
    'library, reason',
    [
        (RecordedNvml(rates(0), NOT_SUPPORTED), "0 and memory gives 'Not Supported'"),
        (RecordedNvml(NOT_SUPPORTED, memory(1, 2)), 'NVML utilisation: Not Supported'),
        (RecordedNvml(rates(0), memory(0, 0)), '0 of 0 bytes'),
        (RecordedNvml(rates(10), memory(3, 2)), '3 of 2 bytes'),
        (RecordedNvml(rates(4_294_967_295), memory(1, 2)), 'is 4.29497e+09'),
    ],
)
def test_nvml_that_lies_is_not_believed(tmp_path, library, reason):
    readings = look(tmp_path, nvml=Nvml(library))
    assert math.isnan(readings.gpu_utilisation) and math.isnan(readings.gpu_memory_used)
    assert reason in readings.reason and 'nvml' not in readings.sources


def test_nvml_without_a_gpu_or_a_module_is_absent(monkeypatch):
    monkeypatch.setitem(__import__('sys').modules, 'pynvml', None)
    with pytest.raises(SensorAbsent, match='pynvml is not installed'):
        open_nvml()
    with pytest.raises(SensorAbsent, match='NVML: Not Found'):
        Nvml(RecordedNvml(device=RecordedNvml.NVMLError('Not Found')))


def test_a_sensor_that_dies_is_a_fault_and_one_that_never_was_is_not(orin):
    first = look(orin)
    (orin / GPU).unlink()
    (orin / 'proc/pressure/cpu').unlink()
    readings = look(orin, first.cpu_times, expected=first.sources)
    assert math.isnan(readings.gpu_utilisation)
    assert 'jetson_gpu: was there before' in readings.reason
    assert 'pressure: was there before' in readings.reason
    assert not look(orin, first.cpu_times).reason
