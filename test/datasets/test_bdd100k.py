from __future__ import annotations

import json

import pytest

from deadline_perception.datasets.bdd100k import read_bdd100k


def read(root, **options):
    with pytest.warns(UserWarning, match='1 boxes clipped'):
        return read_bdd100k(root, **options)


def test_reads_the_old_label_form(bdd100k_root):
    sequence = read(bdd100k_root, rate_hz=5.0)
    assert [frame.stamp_ns for frame in sequence.frames] == [0, 200_000_000, 400_000_000]
    truth = sequence.frames[0].truth
    assert truth.boxes_xyxy_px.tolist() == [[50.5, 10.25, 60, 20], [0, 30, 20, 50], [70, 30, 80, 44]]
    assert truth.labels.tolist() == [4, 0, 2]
    assert len(sequence.frames[1].truth) == 0
    assert sequence.frames[2].truth is None


def test_prefers_the_new_label_form(bdd100k_root):
    old = json.loads((bdd100k_root / 'labels/bdd100k_labels_images_val.json').read_text())
    for row in old:
        for label in row['labels']:
            label['id'] = str(label['id'])
            renamed = {'motor': 'motorcycle', 'person': 'pedestrian'}
            label['category'] = renamed.get(label['category'], label['category'])
    del old[1]['labels']
    old[0]['labels'][0]['attributes']['crowd'] = True
    new = bdd100k_root / 'labels/det_20/det_val.json'
    new.parent.mkdir()
    new.write_text(json.dumps(old))
    sequence = read(bdd100k_root)
    assert sequence.frames[0].truth.labels.tolist() == [4, 0, 2]
    assert sequence.frames[0].truth.crowd.tolist() == [True, False, False]
    assert len(sequence.frames[1].truth) == 0


def test_people_are_left_out_in_silence_and_unknown_categories_with_a_count(bdd100k_root):
    file = bdd100k_root / 'labels/bdd100k_labels_images_val.json'
    file.write_text(file.read_text().replace('"person"', '"cow"'))
    with pytest.warns(UserWarning, match="1 boxes of unknown category 'cow' dropped") as caught:
        sequence = read_bdd100k(bdd100k_root)
    assert len(caught) == 1 and sequence.frames[0].truth.labels.tolist() == [4, 0, 2]


def test_speed_is_that_of_the_tenth_second(bdd100k_root):
    frames = read(bdd100k_root).frames
    assert frames[0].speed_mps == pytest.approx(7.0)
    assert frames[1].speed_mps is None


def test_a_sensor_without_valid_entry_gives_no_speed(bdd100k_root):
    file = bdd100k_root / 'info/100k/val/b1c66a42-6f7d68ca.json'
    content = json.loads(file.read_text())
    for entry in content['locations']:
        entry['speed'] = -1
    file.write_text(json.dumps(content))
    assert read(bdd100k_root).frames[0].speed_mps is None


def test_refuses_other_folders_and_broken_files(bdd100k_root, tmp_path_factory):
    with pytest.raises(FileNotFoundError, match='images/100k/val'):
        read_bdd100k(tmp_path_factory.mktemp('empty'))
    with pytest.raises(FileNotFoundError, match='none.json'):
        read_bdd100k(bdd100k_root, labels=bdd100k_root / 'none.json')
    with pytest.raises(ValueError, match='rate is -1'):
        read_bdd100k(bdd100k_root, rate_hz=-1)
    labels = bdd100k_root / 'labels/bdd100k_labels_images_val.json'
    content = json.loads(labels.read_text())
    del content[0]['labels'][0]['box2d']['x2']
    labels.write_text(json.dumps(content))
    with pytest.raises(ValueError, match='b1c66a42-6f7d68ca.jpg has no category or box2d'):
        read_bdd100k(bdd100k_root)
    labels.write_text('[1]')
    with pytest.raises(ValueError, match='no BDD100K label file'):
        read_bdd100k(bdd100k_root)
    (bdd100k_root / 'images/100k/train').mkdir()
    with pytest.raises(ValueError, match=r'holds no \*.jpg'):
        read_bdd100k(bdd100k_root, 'train')
