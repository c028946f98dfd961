import sys

import pytest
from python_run import run_python

pytest.importorskip('openvino')


def test_telemetry_stays_out_of_the_process():
    told = run_python(
        '-c',
        'import sys; from deadline_perception.engines.openvino_library import load_openvino; load_openvino(); '
        'from openvino import convert_model; print(sys.modules["openvino_telemetry"])',
    )
    assert told.stdout.strip() == 'None'
    # nor do tests that import openvino themselves report anything
    assert sys.modules['openvino_telemetry'] is None


def test_a_signal_is_survived_after_the_driver_is_gone():
    """Its end in another thread takes the signal stack away that it had given to the first one."""
    ended = run_python(
        '-c',
        'import faulthandler, signal, threading\n'
        'faulthandler.enable()\n'  # gives the thread a stack for signals
        'signal.signal(signal.SIGTERM, lambda *_: print("heard", flush=True))\n'
        'from deadline_perception.engines.openvino_library import openvino_core\n'
        'assert openvino_core() is openvino_core()\n'
        'thread = threading.Thread(target=openvino_core.cache_clear)\n'
        'thread.start()\n'
        'thread.join()\n'
        'signal.raise_signal(signal.SIGTERM)\n',
    )
    assert (ended.returncode, ended.stdout) == (0, 'heard\n'), ended.stderr


SHARED = """
import os
import numpy as np
import openvino as ov
from openvino import opset13 as ops
from deadline_perception.engines.openvino_library import cpu_settings, openvino_core
kept = []  # what is free is taken by the next model
def threads(settings):
    before = len(os.listdir('/proc/self/task'))
    value = ops.parameter([1, 8], np.float32)
    model = ov.Model([ops.relu(value)], [value])
    compiled = [openvino_core().compile_model(model, 'CPU', settings) for _ in range(8)]
    for one in compiled:
        assert one(np.full((1, 8), -1.0, np.float32))[0].max() == 0.0
    kept.append(compiled)
    return len(os.listdir('/proc/self/task')) - before
os.sched_getaffinity = lambda pid: {0, 1}
shared = threads(cpu_settings(2))
own = threads({**cpu_settings(2), 'EXCLUSIVE_ASYNC_REQUESTS': False})
os.sched_getaffinity = lambda pid: {0, 1, 2, 3}
assert 'EXCLUSIVE_ASYNC_REQUESTS' not in cpu_settings(2) and cpu_settings(1)['NUM_STREAMS'] == 0
print(shared, own)
"""


def test_models_that_may_have_all_cores_share_what_they_compute_with():
    told = run_python('-c', SHARED)
    assert told.returncode == 0, told.stderr
    shared, own = map(int, told.stdout.split())
    assert shared <= own - 6
