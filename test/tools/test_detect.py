import csv
import json
import os
import re
from functools import partial
from pathlib import Path

import cv2
import pytest
from full_disk import full_disk
from plain_images import grey, noise, write_images
from timed_videos import write_video

from deadline_perception.core.images.image_file import load_image
from deadline_perception.extras.data.records import Frame, Sequence
from deadline_perception.extras.data.shown_source import ShownImage, ShownSource, open_shown
from deadline_perception.tools.command_line import main
from deadline_perception.tools.detect import _Pictures, loose_bounds, too_little_time

MODEL = 'invented_networks:make_magnifier'
DRIVE = ShownSource('drive', None, 10.0)
AMPLE_MS = '20000'  # nothing is late by accident on a busy machine


@pytest.fixture(scope='module')
def cache(tmp_path_factory) -> Path:
    """Keeps the profile that the first test measures."""
    return tmp_path_factory.mktemp('cache')


@pytest.fixture(autouse=True)
def in_cache(cache, monkeypatch, tmp_path):
    monkeypatch.setenv('XDG_CACHE_HOME', str(cache))
    monkeypatch.chdir(tmp_path)


def detect(source: object, *more: str) -> int:
    return main(['detect', str(source), '--model', MODEL, '--budget', AMPLE_MS, *more])


def photographs(folder: Path, count: int) -> Path:
    return write_images(folder, [grey(48, 64, 90)] * count)


def test_a_photo_is_drawn_and_its_objects_are_written_for_other_programs(tmp_path, capsys):
    photo = photographs(tmp_path / 'photos', 1) / '0.png'
    assert detect(photo) == 0
    said = capsys.readouterr().out
    assert '1 thing' in said and '1 answered within 20000 ms' in said
    picture = cv2.imread('out/detect/0.jpg')
    assert picture.shape[0] > 48 and picture.shape[1] == 64  # the strip below the image
    content = json.loads(Path('out/detect/detections.json').read_text())
    assert content['annotations'][0]['bbox'] == [16.0, 12.0, 16.0, 12.0]
    assert (Path('out/detect') / content['images'][0]['file_name']).resolve() == photo.resolve()
    (row,) = csv.DictReader(Path('out/detect/detections.csv').read_text().splitlines())
    assert (row['class'], row['left'], row['bottom']) == ('thing', '16.0', '24.0')


def test_images_that_are_not_answered_in_time_are_told_with_what_to_do(tmp_path, capsys):
    assert detect(photographs(tmp_path / 'photos', 2), '--budget', '0.01') == 0
    said = capsys.readouterr().out
    assert said.count('1 thing; ') == said.count(' ms, not in time, ') == 2
    assert '0 answered within 0.01 ms' in said and '--budget 0.03 gives more time' in said


def test_what_to_do_about_times_is_told_where_it_helps():
    assert 'bounds are 7 times what images took' in loose_bounds([1.0, *[7.1] * 20], 'street')
    assert loose_bounds([2.0] * 21, 'street') == loose_bounds([7.0], 'street') == ''
    busy = 'this machine is busy (load 9.9 on 2 cores): try again when it is not; --budget'
    for load, words in ((1.5, '--budget 300 gives more time'), (9.94, busy)):
        assert too_little_time(100.0, load, 2).startswith(words)
        assert '--budget 60000 gives' in too_little_time(50_000.0, load, 2)


def test_an_image_that_cannot_be_read_is_skipped_and_named(tmp_path, capsys):
    (photographs(tmp_path / 'photos', 3) / '1.png').write_bytes(b'')
    assert detect(tmp_path / 'photos') == 1
    told = capsys.readouterr()
    assert '1 of 3 images skipped: ' in told.out + told.err and '1.png' in told.out + told.err
    kept = json.loads(Path('out/detect/detections.json').read_text())['images']
    assert [Path(image['file_name']).stem for image in kept] == ['0', '2']


def test_a_video_becomes_a_video(tmp_path, capsys):
    video = write_video(tmp_path / 'drive.avi', [grey(48, 64, 10 * i) for i in range(6)])
    assert detect(video) == 0
    assert 'wrote out/detect/drive.mp4' in capsys.readouterr().out
    video = cv2.VideoCapture('out/detect/drive.mp4')
    assert int(video.get(cv2.CAP_PROP_FRAME_COUNT)) == 6
    assert round(video.get(cv2.CAP_PROP_FPS)) == 20


@pytest.mark.parametrize(
    'words, message',
    [
        (('nowhere.jpg',), "source 'nowhere.jpg' does not exist"),
        (('broken.jpg', '--model', 'nowhere'), 'broken.jpg cannot be decoded, expected a JPEG'),
        (('97',), r'^deadline-perception detect: webcam 97 \(/dev/video97\) cannot be opened'),
        (('x.jpg', '--budget', '0'), '--budget is 0 ms, expected more than 0'),
        (('x.jpg', '--min-score', '2'), '--min-score is 2.0, expected 0 to 1'),
        (('x.jpg', '--out', 'x.txt'), '--out is x.txt, which is a file; expected a folder'),
        (('x.jpg', '--out', '/proc/out', '--model', 'nowhere'), '/proc/out cannot be used'),
    ],
)
def test_arguments_are_looked_at_before_a_network_is_loaded(words, message, capfd, tmp_path):
    (tmp_path / 'x.txt').write_text('')
    (tmp_path / 'broken.jpg').write_text('no picture')
    write_images(tmp_path, [grey(48, 64)]).joinpath('0.png').rename('x.jpg')
    assert main(['detect', *words]) == 1
    error = capfd.readouterr().err
    assert re.search(message, error) and 'loading' not in error


def test_a_video_that_the_disk_does_not_take_is_told_and_leaves_nothing(tmp_path):
    image = noise(64, 64)
    with (
        full_disk(300),
        pytest.raises(OSError, match='drive.mp4 cannot be written'),
        _Pictures(tmp_path, DRIVE) as pictures,
    ):
        for _ in range(20):
            pictures.add(ShownImage('a', 1, image), image)
    assert list(tmp_path.iterdir()) == []


def test_pictures_lie_in_their_folder_and_replace_neither_each_other_nor_an_image(tmp_path):
    """Of names that differ in their endings alone, lead out of the folder, or are those of other images."""
    data = tmp_path / 'data'
    image = grey(48, 64)
    names = ['a.png', 'a.webp', '../b.png', f'{data}/c.png', 'c.jpg']
    frames = []
    for number, name in enumerate(names):
        (data / 'in').mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(data / 'in' / name), image)
        frames.append(Frame(name, number, partial(load_image, data / 'in' / name)))
    source = ShownSource('data', len(names), 10.0, Sequence('data', (), tuple(frames)))
    before = {file: file.read_bytes() for file in data.rglob('*.*')}
    for out in (tmp_path / 'out', data / 'in', data):
        with _Pictures(out, source) as pictures:
            files = [pictures.add(shown, shown.image_bgr) for shown in source.images()]
        assert len({file.resolve() for file in files}) == len(names)
        assert all(file.resolve().is_relative_to(out) for file in files)
        assert {file: file.read_bytes() for file in before} == before


NO_UTF_8 = os.fsdecode(b'stra\xdfe')  # as on older disks and in archives of Windows


def test_a_photo_whose_name_is_no_utf_8_is_told_of_by_that_name_and_a_video_is_refused(tmp_path):
    photographs(tmp_path / 'in', 1)
    (tmp_path / 'in/0.png').rename(tmp_path / f'in/{NO_UTF_8}.png')
    assert detect('in', '--out', 'out') == 0
    (row,) = json.loads((tmp_path / 'out/detections.json').read_text())['images']
    assert (tmp_path / 'out' / row['file_name']).is_file()
    assert b'../in/stra\xdfe.png,' in (tmp_path / 'out/detections.csv').read_bytes()
    (tmp_path / f'{NO_UTF_8}.mp4').write_bytes(b'video')  # OpenCV would end the process
    with pytest.raises(ValueError, match='is no name in UTF-8'):
        open_shown(f'{NO_UTF_8}.mp4')
