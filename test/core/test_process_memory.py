import json
import os
import platform
from pathlib import Path

from python_run import run_python

from deadline_perception.core.device import process_environment

COMMON = """
import json, mmap, platform, re, resource
from pathlib import Path
import numpy as np
def resident_mb():
    return int(Path('/proc/self/statm').read_text().split()[1]) * resource.getpagesize() / 1e6
"""
# Memory that is given back of a thread that freed much; page faults of a frame on one that warmed up, and on another.
PROGRAM = """
from types import SimpleNamespace
from deadline_perception.runtime import loading
from deadline_perception.runtime.executor import Executor
def faults(*path):
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    values = [np.ones(1000 * size_kb, np.uint8) for size_kb in (3900, 100, 1000, 5200, 700, 2900)]
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before
loading.warm_up, loading.check_results = faults, faults
network = SimpleNamespace(path_space=SimpleNamespace(results=list), warm_up=faults)
def load():
    return [np.ones(2**20, np.uint8) for _ in range(40)][-1]
warm, other = Executor('inference'), Executor('other')  # each allocates from a part of its own
kept = warm.do(load)
loaded_mb = resident_mb()
loading.give_back_memory()
given_back_mb = loaded_mb - resident_mb()
warm.do(lambda: loading._warm_up_once(network, (1, 1), None, [()]))
print(json.dumps([given_back_mb, other.do(faults), warm.do(faults)]))
[one.close(1.0) for one in (warm, other)]
"""


def found_by(program):
    """What a program prints that starts with the settings of a node."""
    ran = run_python('-c', COMMON + program, env={**os.environ, **process_environment(1)})
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_freed_memory_is_given_back_and_the_first_frame_of_a_network_that_is_warm_faults_no_page_in():
    given_back_mb, without, warm = found_by(PROGRAM)
    assert given_back_mb > 30 and without > 2000 and warm < without / 8


# Resident memory and mappings of a process whose memory is locked, before and after what it freed is given back.
LOCKED = """
import ctypes
from deadline_perception.system.priority import ThreadPriority
from deadline_perception.core.process_memory import trim_memory
def locked_mb():
    return next(int(line.split()[1]) for line in Path('/proc/self/status').open() if line.startswith('VmLck')) / 1e3
def mappings():
    return len(Path('/proc/self/maps').read_text().splitlines())
priority = ThreadPriority('auto')
blocks = [np.ones(2**20, np.uint8) for _ in range(40)]
kept = blocks[-1]
del blocks
piece = mmap.mmap(-1, 400 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
piece[:] = bytes(len(piece))
begin, node = ctypes.addressof(ctypes.c_char.from_buffer(piece)), ctypes.c_ulong(1)
trim_memory()  # whose threads leave mappings of their own, once
whole = mappings()
mbind = {'x86_64': 237, 'aarch64': 235}[platform.machine()]
bound = [ctypes.CDLL(None).syscall(ctypes.c_long(mbind), ctypes.c_void_p(begin + number * mmap.PAGESIZE),
         ctypes.c_size_t(mmap.PAGESIZE), 2, ctypes.byref(node), ctypes.c_ulong(64), 0) for number in range(1, 400, 2)]
cut, before_mb = mappings() - whole, resident_mb()
trim_memory()
still_mb, in_force, held_mb = before_mb - resident_mb(), priority.in_force, locked_mb()
priority.restore()  # as a node does that is deactivated
trim_memory()
print(json.dumps({'is_bound': not any(bound), 'cut': cut, 'left': mappings() - whole, 'in_force': in_force,
                  'locked_mb': held_mb, 'still_mb': still_mb, 'given_back_mb': before_mb - resident_mb(),
                  'unchanged': not any(piece[:])}))
"""


def test_what_was_freed_is_given_back_also_where_memory_is_locked_and_mappings_are_joined():
    found = found_by(LOCKED)
    assert found['given_back_mb'] > 30 and found['unchanged']
    if 'memory locked' in found['in_force']:
        assert found['still_mb'] < 5 and found['locked_mb'] > 50
    if found['is_bound']:  # which a container may forbid
        assert found['cut'] > 300 and found['left'] < 20


# MB on huge pages and resident, before and after what is in use moves there; and a block of which little is in use.
HUGE = """
from deadline_perception.core.process_memory import use_huge_pages
def mb(name):
    return sum(int(kb) for kb in re.findall(rf'^{name}: +(\\d+) kB', Path('/proc/self/smaps').read_text(), re.M)) / 1e3
blocks = [np.full(2**20, number, np.uint8) for number in range(40)]
sparse = mmap.mmap(-1, 2**25, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
sparse[::2**16] = bytes(2**9)
huge_mb, resident_mb = mb('AnonHugePages'), mb('Rss')
use_huge_pages()
print(json.dumps([mb('AnonHugePages') - huge_mb, mb('Rss') - resident_mb,
                  all((block == number).all() for number, block in enumerate(blocks))]))
"""


def test_what_is_in_use_moves_to_huge_pages_where_the_kernel_can_and_takes_no_more_memory():
    moved_mb, more_mb, unchanged = found_by(HUGE)
    assert unchanged and more_mb < 20
    can = tuple(map(int, platform.release().split('.')[:2])) >= (6, 1)
    if can and '[never]' not in Path('/sys/kernel/mm/transparent_hugepage/enabled').read_text():
        assert moved_mb > 30
