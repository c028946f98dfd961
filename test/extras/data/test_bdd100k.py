import json
import re

import pytest
from read_sequences import (
    boxes_of,
    classes_of,
    crowd_of,
    object_counts,
    opened,
    speeds_mps,
    stamps_ns,
)
from timed_videos import matroska

from deadline_perception.extras.data.bdd100k import CLASS_NAMES, read_bdd100k, read_bdd100k_tracks

LABELS = 'labels/bdd100k_labels_images_val.json'


def read(root, **options):
    with pytest.warns(UserWarning, match='1 boxes clipped'):
        return read_bdd100k(root, **options)


def test_reads_the_old_label_form_and_the_speed_of_the_tenth_second(bdd100k_root):
    sequence = read(bdd100k_root, rate_hz=5.0)
    assert stamps_ns(sequence) == [0, 200_000_000, 400_000_000]
    expected = [[50.5, 10.25, 60, 20], [0, 30, 20, 50], [70, 30, 80, 44], [1, 1, 5, 9]]
    assert boxes_of(sequence) == expected
    assert classes_of(sequence) == ['traffic sign', 'car', 'motorcycle', 'pedestrian']
    assert object_counts(sequence) == [4, 0, None]
    assert speeds_mps(sequence) == [pytest.approx(7.0), None, None]
    file = bdd100k_root / 'info/100k/val/b1c66a42-6f7d68ca.json'
    file.write_text(re.sub('"speed": [0-9.]+', '"speed": -1', file.read_text()))
    assert speeds_mps(read(bdd100k_root)) == [None] * 3


def test_old_and_new_names_are_one_set_of_ten(bdd100k_root):
    file = bdd100k_root / LABELS
    label = json.loads(file.read_text())[0]['labels'][1]
    names = [*CLASS_NAMES, 'person', 'motor', 'bike', 'other person', 'trailer']
    labels = [label | {'category': name} for name in names]
    file.write_text(json.dumps([{'name': 'b1c66a42-6f7d68ca.jpg', 'labels': labels}]))
    with pytest.warns(UserWarning, match='15 boxes clipped'):
        sequence = read_bdd100k(bdd100k_root)
    assert sequence.class_names == CLASS_NAMES and len(CLASS_NAMES) == 10
    expected = [*CLASS_NAMES, 'pedestrian', 'motorcycle', 'bicycle', 'pedestrian', 'truck']
    assert classes_of(sequence) == expected
    assert crowd_of(sequence) == [False] * 13 + [True] * 2


def test_tracked_videos_are_sequences_at_five_hertz(bdd100k_tracks):
    sequence = read_bdd100k_tracks(bdd100k_tracks)
    assert sequence.class_names == CLASS_NAMES[:8], 'lights and signs are not tracked'
    assert stamps_ns(sequence) == [0, 200_000_000, 400_000_000, 1_400_000_000, 1_600_000_000]
    expected = [pytest.approx(5.0), pytest.approx(5.2), pytest.approx(5.4), None, None]
    assert speeds_mps(sequence) == expected
    assert object_counts(sequence) == [3, 0, 3, None, None]
    assert classes_of(sequence) == ['pedestrian', 'car', 'rider']
    assert crowd_of(sequence) == [False, True, True]
    assert sequence.frames[4].load_bgr().shape == (72, 128, 3)


def test_tracked_videos_are_named_by_their_folders(bdd100k_tracks):
    tracks, video = bdd100k_tracks / 'images/track', 'b1c81faa-3df17267'
    for source in (bdd100k_tracks, tracks, tracks / 'val'):
        assert len(opened(source).frames) == 5
    assert len(opened(tracks / 'val' / video).frames) == 2
    assert len(opened(tracks, rate_hz=2.5).frames) == 3
    with pytest.raises(FileNotFoundError, match='images/track/train does not exist'):
        read_bdd100k_tracks(bdd100k_tracks, 'train')
    (tracks / 'val' / video / f'{video}-0000002.jpg').rename(tracks / 'val' / video / 'b.jpg')
    with pytest.raises(ValueError, match='b.jpg, expected b1c81faa-3df17267-0000001.jpg'):
        read_bdd100k_tracks(bdd100k_tracks)


def test_videos_have_the_speeds_of_their_info_at_the_times_of_their_frames(bdd100k_tracks):
    file = bdd100k_tracks / 'videos/val/b1c66a42-6f7d68ca.mov'
    file.parent.mkdir(parents=True)
    matroska(file, [0, 33, 1000, 1500])
    assert speeds_mps(opened(file)) == pytest.approx([5.0, 5.033, 6.0, 6.5])
    other = matroska(file.with_name('other.mov'), [0, 33, 1000, 1500])
    assert speeds_mps(opened(other)) == [None] * 4


def test_refuses_other_folders_and_broken_files(bdd100k_root, tmp_path_factory):
    def refuses(words, error=ValueError, split='val', root=bdd100k_root):
        with pytest.raises(error, match=words):
            read_bdd100k(root, split)

    refuses('images/100k/val', FileNotFoundError, root=tmp_path_factory.mktemp('empty'))
    labels = bdd100k_root / LABELS
    content = json.loads(labels.read_text())
    del content[0]['labels'][0]['box2d']['x2']
    labels.write_text(json.dumps(content))
    refuses("lacks the key 'x2', expected BDD100K labels")
    labels.write_text('[1]')
    refuses('not in the form of BDD100K labels')
    labels.write_text('[{"name": "b1c66a42-6f7d68ca.jpg"}]')
    (bdd100k_root / 'images/100k/val/b1c66a42-6f7d68ca.jpg').write_bytes(b'')
    refuses('^[^ ]*b1c66a42-6f7d68ca.jpg cannot be decoded')
    (bdd100k_root / 'images/100k/train').mkdir()
    refuses(r'holds no \*.jpg', split='train')
