import cv2
import pytest
from plain_images import grey
from read_sequences import opened, speeds_mps, stamps_ns

from deadline_perception.extras.data.class_names import left_out
from deadline_perception.extras.data.kitti import CLASS_NAMES
from deadline_perception.tools.command_line import main

REST = '1.5 1.6 3.9 1.0 1.7 20.0 0.1'


def image(file):
    file.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(file), grey(50, 100))


def test_single_images_with_regions_that_nobody_marked(tmp_path, capsys):
    for name in ('training/image_2/000000', 'training/image_2/000001', 'testing/image_2/000000'):
        image(tmp_path / f'{name}.png')
    labels = tmp_path / 'training/label_2/000000.txt'
    labels.parent.mkdir()
    region = 'DontCare -1 -1 -10 50.0 5.0 60.0 9.0 -1 -1 -1 -1000 -1000 -1000 -10'
    labels.write_text(f'Car 0.00 0 -1.58 10.0 5.0 30.0 20.0 {REST}\n{region}\n')
    sequence = opened(tmp_path)
    known = sequence.frames[0].ground_truth
    assert sequence.class_names == CLASS_NAMES and sequence.frames[1].ground_truth is None
    assert known.boxes_xyxy_px[0].tolist() == [10, 5, 30, 20] and not known.crowd[0]
    assert known.crowd[1:].all() and known.labels[1:].tolist() == list(range(len(CLASS_NAMES)))
    assert left_out([known], CLASS_NAMES, ('Car',)) == {}  # regions are no objects
    assert main(['bag', str(tmp_path), str(tmp_path / 'out.mcap')]) == 0
    assert ' 1 known boxes' in capsys.readouterr().out
    assert opened(tmp_path, split='test').frames[0].ground_truth is None
    labels.write_text('Car 0.00 0\n')
    with pytest.raises(ValueError, match='000000.txt is not in the form of labels of KITTI'):
        opened(tmp_path)


def test_videos_with_tracks_and_speeds(tmp_path):
    for name in ('0000/000000', '0000/000001', '0000/000002', '0001/000000'):
        image(tmp_path / f'training/image_02/{name}.png')
    (tmp_path / 'training/label_02').mkdir()
    lines = f'1 7 Person 0 0 -1.5 10 5 30 20 {REST}\n1 -1 DontCare -1 -1 -10 0 0 5 5{" -1" * 7}\n'
    (tmp_path / 'training/label_02/0000.txt').write_text(lines)
    (tmp_path / 'training/oxts').mkdir()
    row = ' '.join(['0'] * 8 + ['{}'] + ['0'] * 21)
    speeds = '\n'.join(row.format(speed) for speed in (9.5, -0.1, 'nan'))
    (tmp_path / 'training/oxts/0000.txt').write_text(speeds)
    sequence = opened(tmp_path)
    assert stamps_ns(sequence) == [0, 10**8, 2 * 10**8, 12 * 10**8]
    assert speeds_mps(sequence) == [9.5, 0.0, None, None]
    known = sequence.frames[1].ground_truth
    assert CLASS_NAMES[known.labels[0]] == 'Person_sitting' and known.crowd.sum() == 8
    assert len(sequence.frames[0].ground_truth) == 0 and sequence.frames[3].ground_truth is None
    assert len(opened(tmp_path / 'training/image_02/0001').frames) == 1
    assert len(opened(tmp_path, rate_hz=5).frames) == 3
