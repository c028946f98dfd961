import json
import math
import os
import subprocess
import sys

import pytest
from file_trees import write_tree
from python_run import run_python

from deadline_perception.core.device import (
    DeviceFacts,
    DeviceNotFound,
    process_environment,
    read_device_facts,
    use_threads,
)

JETSON = {
    'proc/device-tree/model': b'NVIDIA Jetson AGX Orin Developer Kit\x00',
    'proc/cpuinfo': 'processor\t: 0\nBogoMIPS\t: 62.50\nFeatures\t: fp asimd\n',
    'var/lib/nvpmodel/status': 'pmode:0002 fmode:quiet\n',
    'etc/nvpmodel.conf': '< POWER_MODEL ID=0 NAME=MAXN >\nCPU_ONLINE CORE_0 1\n'
    '< POWER_MODEL ID=2 NAME=MODE_30W >\nCPU_ONLINE CORE_0 1\n< PM_CONFIG DEFAULT=2 >\n',
    'sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq': '1728000\n',
    'sys/devices/system/cpu/cpu0/cpufreq/scaling_governor': 'schedutil\n',
    'sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size': '64\n',
}
DESKTOP = {
    'proc/cpuinfo': 'processor\t: 0\nmodel name\t: Intel(R) Core(TM) i7-9700K CPU @ 3.60GHz\nflags\t\t: fpu fma avx2\n',
    'sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq': '3600000\n',
    'sys/devices/system/cpu/cpu3/cpufreq/scaling_max_freq': '4900000\n',
    'sys/devices/system/cpu/cpu0/cpufreq/scaling_governor': 'performance\n',
}


def test_reads_a_jetson(tmp_path):
    facts = read_device_facts('cpu', root=write_tree(tmp_path, JETSON), environment={})
    assert facts.name == 'NVIDIA Jetson AGX Orin Developer Kit'
    assert facts.slug == 'nvidia-jetson-agx-orin-developer-kit'
    assert (facts.power_mode, facts.clock_mhz, facts.cache_line_bytes) == ('MODE_30W', 1728.0, 64)
    assert facts.cpu_capability == 'DEFAULT'
    root = write_tree(tmp_path, {'etc/nvpmodel.conf': ''})  # a mode without a name
    assert read_device_facts('cpu', root=root, environment={}).power_mode == 'mode 2'


def test_reads_a_desktop(tmp_path):
    facts = read_device_facts(
        'cpu', root=write_tree(tmp_path, DESKTOP), environment={'OMP_WAIT_POLICY': 'PASSIVE'}
    )
    assert facts.slug == 'intel-core-i7-9700k-cpu-3-60ghz'
    assert (facts.power_mode, facts.clock_mhz) == ('governor performance', 4900.0)
    assert (facts.wait_policy, facts.allocator, facts.kind) == ('passive', 'default', 'cpu')
    assert facts.cpu_capability == 'AVX2'
    settings = process_environment(1)
    for environment, allocator in (
        (settings, 'retaining'),
        ({**settings, 'MALLOC_TOP_PAD_': '1'}, 'default'),
    ):
        facts = read_device_facts('cpu', root=tmp_path, environment=environment)
        assert facts.allocator == allocator


TORCH = """
import json, os, sys
from deadline_perception.core.device import read_device_facts, use_threads
said = {'own threads': read_device_facts().threads, 'loads torch': 'torch' in sys.modules}
import cv2, torch
for forced in (None, 'default', 'avx2', 'MMX'):
    ours, theirs = os.pipe()
    if os.fork() == 0:  # as torch reads it once for a process
        if forced is not None:
            os.environ['ATEN_CPU_CAPABILITY'] = forced
        os.write(theirs, torch.backends.cpu.get_cpu_capability().encode())
        os._exit(0)
    os.wait()
    said[forced or ''] = os.read(ours, 100).decode()
threads = []
for number in (2, 1):
    use_threads(number)
    threads.append((torch.get_num_threads(), cv2.getNumThreads()))
print(json.dumps({**said, 'threads': threads}))
"""


# Settings that a process lacks before and after it sets what it can, and pages that 60 MB fault in again once freed.
SETTINGS = """
import json, resource
from deadline_perception.core.device import keep_settings, missing_environment
import numpy as np
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    [np.ones(2**20, np.uint8) for _ in range(60)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
lacking, faulted = missing_environment(2), faults()
keep_settings(2)
print(json.dumps([len(lacking), missing_environment(2), faulted, max(faults(), faults()) and faults()]))
"""


def test_a_process_that_runs_keeps_the_memory_it_frees_and_its_threads_will_not_spin():
    bare = {name: value for name, value in os.environ.items() if name not in process_environment(2)}
    run = subprocess.run([sys.executable, '-c', SETTINGS], env=bare, stdout=-1, check=True)
    lacking, (*of_torch, of_glibc), faulted, faulted_after = json.loads(run.stdout)
    assert lacking == 7 and faulted > 5000 and faulted_after < 500
    assert of_torch == ['OMP_NUM_THREADS=2', 'MKL_NUM_THREADS=2']  # set as PyTorch loads
    assert of_glibc.startswith('GLIBC_TUNABLES=')


@pytest.mark.slow
def test_torch_computes_as_it_is_described_and_with_as_many_threads_as_it_is_told():
    torch = pytest.importorskip('torch')
    ambient = {name: value for name, value in os.environ.items() if name != 'ATEN_CPU_CAPABILITY'}
    run = run_python('-c', TORCH, env={**ambient, **process_environment(2)})
    assert run.returncode == 0, run.stderr
    said = json.loads(run.stdout)
    assert (said.pop('own threads'), said.pop('loads torch')) == (2, False)
    assert said.pop('threads') == [[2, 1], [1, 1]]
    assert len(said) == 4 and said['default'] == 'DEFAULT'
    if 'AVX' not in torch.backends.cpu.get_cpu_capability():
        del said['avx2']
    for forced, found in said.items():
        environment = {'ATEN_CPU_CAPABILITY': forced} if forced else {}
        expected = read_device_facts(environment=environment).cpu_capability
        assert found == expected or expected == 'SVE', forced


def test_an_absent_gpu_is_told_in_one_line():
    torch = pytest.importorskip('torch')
    message = r"^device is 'cuda:\d+', but PyTorch [^\n]* use the device cpu[^\n]*$"
    with pytest.raises(DeviceNotFound, match=message):
        read_device_facts(f'cuda:{torch.cuda.device_count()}')


def test_several_threads_must_not_spin_for_each_other_and_impossible_facts_are_refused():
    assert process_environment(2)['OMP_WAIT_POLICY'] == 'PASSIVE'
    assert 'OMP_WAIT_POLICY' not in process_environment(1)
    for refuses in (process_environment, use_threads):
        with pytest.raises(ValueError, match='threads is 0'):
            refuses(0)
    for wrong in ({'kind': 'tpu'}, {'cores': 0}, {'threads': 0}, {'clock_mhz': math.nan}):
        with pytest.raises(ValueError, match='expected'):
            DeviceFacts(**{'name': 'x', 'kind': 'cpu', 'cores': 1, 'threads': 1} | wrong)
