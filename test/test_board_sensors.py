"""Trees of sysfs as boards of several JetPack versions have them, by NVIDIA's documentation of each."""
from __future__ import annotations

from dataclasses import astuple

import pytest
from file_trees import write_tree

ORIN_6 = {'sys/class/devfreq/17000000.gpu/cur_freq': '306000000',
          'sys/class/devfreq/17000000.gpu/max_freq': '1020000000',
          'sys/class/devfreq/other/cur_freq': '1',
          'sys/class/thermal/thermal_zone0/type': 'cpu-thermal', 'sys/class/thermal/thermal_zone0/temp': '61000',
          'sys/class/thermal/thermal_zone1/type': 'gpu-thermal', 'sys/class/thermal/thermal_zone1/temp': '54250',
          'sys/class/hwmon/hwmon1/name': 'pwmfan',
          'sys/class/hwmon/hwmon3/name': 'ina3221', 'sys/class/hwmon/hwmon3/in1_label': 'VDD_IN',
          'sys/class/hwmon/hwmon3/in1_input': '5024', 'sys/class/hwmon/hwmon3/curr1_input': '1500',
          'sys/class/hwmon/hwmon3/in2_label': 'VDD_CPU_GPU_CV', 'sys/class/hwmon/hwmon3/in2_input': '5000',
          'sys/class/hwmon/hwmon3/curr2_input': '600', 'sys/class/hwmon/hwmon3/in3_label': 'VDD_SOC'}
XAVIER_4 = {'sys/class/devfreq/17000000.gv11b/cur_freq': '1377000000',
            'sys/class/devfreq/17000000.gv11b/max_freq': '1377000000',
            'sys/class/thermal/thermal_zone1/type': 'GPU-therm', 'sys/class/thermal/thermal_zone1/temp': '45500'}


@pytest.mark.parametrize(('files', 'state'), [
    (ORIN_6, (306.0, 1020.0, 54.25, {'VDD_IN': 7.536, 'VDD_CPU_GPU_CV': 3.0})),
    (XAVIER_4, (1377.0, 1377.0, 45.5, {})), ({}, (None, None, None, {}))],
    ids=['Orin with JetPack 6', 'Xavier with JetPack 4', 'no board'])
def test_boards(load_benchmark, tmp_path, files, state):
    assert astuple(load_benchmark('board_sensors').read_board(write_tree(tmp_path, files))) == state


@pytest.mark.parametrize('name, content', [
    ('sys/class/devfreq/17000000.gpu/cur_freq', 'busy'), ('sys/class/devfreq/17000000.gpu/cur_freq', '-5'),
    ('sys/class/thermal/thermal_zone1/temp', '9999999'), ('sys/class/hwmon/hwmon3/curr1_input', 'nan')])
def test_what_is_impossible_is_none(load_benchmark, tmp_path, name, content):
    state = load_benchmark('board_sensors').read_board(write_tree(tmp_path, ORIN_6 | {name: content}))
    changed = {'cur_freq': state.gpu_clock_mhz, 'temp': state.gpu_celsius, 'curr1_input': state.watts.get('VDD_IN')}
    assert changed[name.rpartition('/')[2]] is None
