"""What other programs take, from the counts of the system."""

import math

import pytest
from file_trees import write_tree

from deadline_perception.extras.contention.other_programs import (
    cores_of_others,
    watch_cores_of_others,
)
from deadline_perception.timing.contention.sensors import CpuTimes


def test_what_this_process_does_is_not_work_of_others():
    times = CpuTimes(busy=1000, total=4000), CpuTimes(busy=1090, total=4200)
    for own_s, cores in ((0.3, 1.2), (0.95, 0.0)):  # ticks are coarse
        found = cores_of_others(*times, own_s=own_s, passed_s=0.5, ticks_per_s=100.0)
        assert found == pytest.approx(cores)


def test_where_the_system_does_not_say_others_are_unknown(tmp_path):
    assert math.isnan(watch_cores_of_others(0.0, tmp_path))
    write_tree(tmp_path, {'proc/stat': 'nothing\n'})
    assert math.isnan(watch_cores_of_others(0.0, tmp_path))
