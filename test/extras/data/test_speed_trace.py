import json

import pytest
from read_sequences import speeds_mps

from deadline_perception.extras.data.recorded_speed import (
    NoValidSpeedError,
    read_speed_trace,
    with_speeds_of_trace,
)
from deadline_perception.extras.data.speed_trace import SpeedTrace
from deadline_perception.extras.rendered_drive.drive import render_drive


def test_reads_csv_whatever_further_columns(tmp_path):
    file = tmp_path / 'trace.csv'
    # as spreadsheets save it
    file.write_text('\ufeffstamp_s,note,speed_mps\n0.0,start,0\n0.5,,2.5\n1.5,,4.5\n')
    trace = read_speed_trace(file)
    assert trace.stamps_s == (0.0, 0.5, 1.5)
    assert trace.speed_mps(1.0) == pytest.approx(3.5)
    assert trace.speed_mps(1.9) == 4.5 and trace.speed_mps(-0.2) == 0.0
    assert trace.speed_mps(2.6) is None and trace.speed_mps(-1.1) is None


CSV = 'stamp_s,speed_mps\n'


@pytest.mark.parametrize(
    'content, words',
    [
        ('stamp,speed\n0,1\n', "columns .*'stamp'.*expected stamp_s and speed_mps"),
        (f'{CSV}0,1\n1,fast\n', "line 3 holds '1' and 'fast'"),
        (f'{CSV}0,1\n1\n', "line 3 holds '1' and None"),
        (f'{CSV}0,1\n0,2\n', 'stamp 0.0 s .* follows 0.0 s'),
        (f'{CSV}0,nan\n', 'speed at 0.0 s is nan'),
        (f'{CSV}0,-2\n', 'speed at 0.0 s is -2.0 m/s'),
        (CSV, 'at least one'),
        ({'gps': [{'speed': -1, 'timestamp': 1}]}, 'all of its 1 speeds'),
        ({'startTime': 0, 'locations': [], 'gps': []}, 'empty lists'),
        ([], 'no list'),
        ({'gps': [{'speed': 1}]}, "lacks the key 'timestamp'"),
        ({'gps': [{'speed': 'x', 'timestamp': 1}]}, 'each entry with a speed'),
        ({'gps': [{'speed': 10**400, 'timestamp': 1}]}, 'a number of 401 digits'),
    ],
)
def test_refuses_files_without_speeds_with_the_value(tmp_path, content, words):
    is_table = isinstance(content, str)
    file = tmp_path / ('trace.csv' if is_table else 'info.json')
    file.write_text(content if is_table else json.dumps(content))
    with pytest.raises(ValueError, match=words) as refused:
        read_speed_trace(file)
    assert isinstance(refused.value, NoValidSpeedError) == ('all of' in words or 'empty' in words)


def test_reads_cityscapes_folders_and_single_files(cityscapes_root):
    folder = cityscapes_root / 'vehicle/val/ulm'
    trace = read_speed_trace(folder)
    assert trace.speeds_mps == (5.5, 6.0, 0.25)
    assert trace.stamps_s == pytest.approx((0, 1 / 17, 1 + 1 / 17))
    assert read_speed_trace(folder / 'ulm_000000_000019_vehicle.json').speeds_mps == (6.0,)
    (folder / 'ulm_000000_000019_vehicle.json').write_text('{"yawRate": 0}')
    with pytest.raises(ValueError, match='has the speed None'):
        read_speed_trace(folder)
    with pytest.raises(ValueError, match=r'holds no \*_vehicle.json'):
        read_speed_trace(cityscapes_root)


def test_reads_bdd100k_and_drops_invalid_fixes(bdd100k_root):
    file = bdd100k_root / 'info/100k/val/b1c66a42-6f7d68ca.json'
    trace = read_speed_trace(file)
    assert trace.stamps_s == (0.0, 9.0, 11.0) and trace.speeds_mps == (3.0, 6.0, 8.0)
    content = json.loads(file.read_text())
    content['gps'] = [{**entry, 'altitude': 2.0} for entry in content.pop('locations')]
    file.write_text(json.dumps(content))
    assert read_speed_trace(file) == trace


def test_a_sequence_takes_the_trace_from_its_first_frame():
    sequence = render_drive(seconds=0.4, rate_hz=10, width=64, height=48)
    moved = with_speeds_of_trace(sequence, SpeedTrace((5.0, 5.2), (1.0, 3.0)))
    assert speeds_mps(moved) == pytest.approx([1.0, 2.0, 3.0, 3.0])
