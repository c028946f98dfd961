import json
import os
import subprocess
import sys

from deadline_perception.latency.device import process_environment

# Resident memory of a thread that freed much, before and after it is given back. Then page faults of what a frame
# allocates, with a thread that touched memory before and with one that did not.
PROGRAM = '''
import json, resource
from pathlib import Path
import numpy as np
from deadline_perception.runtime.process_memory import give_back_memory, touch_memory
from deadline_perception.runtime.executor import Executor
def faults():
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    values = [np.ones(1000 * size_kb, np.uint8) for size_kb in (3900, 100, 1000, 5200, 700, 2900)]
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before
def resident_mb():
    return int(Path('/proc/self/statm').read_text().split()[1]) * resource.getpagesize() / 1e6
def load():
    blocks = [np.ones(2**20, np.uint8) for _ in range(40)]
    return blocks[-1]
touched, other = Executor('inference'), Executor('other')  # each allocates from a part of its own
kept = touched.do(load)
loaded_mb = resident_mb()
give_back_memory()
given_back_mb = loaded_mb - resident_mb()
touched.do(touch_memory)
print(json.dumps([given_back_mb, other.do(faults), touched.do(faults)]))
touched.close(1.0)
other.close(1.0)
'''


def test_freed_memory_is_given_back_and_the_first_frame_of_a_thread_that_touched_memory_faults_no_page_in():
    run = subprocess.run([sys.executable, '-c', PROGRAM], env={**os.environ, **process_environment(1)},
                         capture_output=True, text=True, timeout=120, check=True)
    given_back_mb, without, touched = json.loads(run.stdout)
    assert given_back_mb > 30
    assert without > 2000 and touched < without / 8
