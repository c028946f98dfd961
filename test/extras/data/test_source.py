import shutil
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_images import grey
from read_sequences import opened, stamps_ns

from deadline_perception.extras.data.bag import write_bag
from deadline_perception.extras.data.records import Frame, Sequence
from deadline_perception.extras.data.source import open_source, thin_out
from deadline_perception.extras.rendered_drive.drive import render_drive


@pytest.mark.filterwarnings('error')
def test_tells_cityscapes(cityscapes_root):
    assert opened(cityscapes_root).name == 'cityscapes-val'
    assert len(opened(cityscapes_root, rate_hz=2).frames) == 2
    with pytest.warns(UserWarning, match=r'it lies in .* \(the root of Cityscapes\): name that'):
        opened(cityscapes_root / 'leftImg8bit')
    opened(shutil.copytree(cityscapes_root / 'leftImg8bit', cityscapes_root / 'own'))  # not its
    with pytest.raises(FileNotFoundError, match='train'):
        opened(cityscapes_root, split='train')
    shutil.rmtree(cityscapes_root / 'leftImg8bit/val')
    with pytest.raises(ValueError, match='none of the splits val, test, train'):
        opened(cityscapes_root)


@pytest.mark.filterwarnings('ignore:.*clipped')
def test_tells_bdd100k(bdd100k_root):
    assert stamps_ns(opened(bdd100k_root, rate_hz=1)) == [0, 10**9, 2 * 10**9]
    with pytest.warns(UserWarning, match=r'it lies in .* \(the root of BDD100K\): name that'):
        opened(bdd100k_root / 'images/100k/val')


def test_tells_bags_in_all_their_forms(tmp_path):
    drive = render_drive(seconds=1.0, rate_hz=10.0, width=64, height=48)
    write_bag(drive, tmp_path / 'folder')
    (tmp_path / 'single').mkdir()
    write_bag(drive, tmp_path / 'single/a.mcap')
    for name in ('folder', 'single', 'single/a.mcap'):
        assert len(opened(tmp_path / name).frames) == 10
        assert len(opened(tmp_path / name, rate_hz=5).frames) == 5
    (tmp_path / 'killed').mkdir()  # a recorder that had begun its second file
    for number, first in enumerate((0, 5)):
        half = drive.frames[first : first + 5]
        frames = [replace(frame, stamp_ns=frame.stamp_ns + 10**9) for frame in half]
        write_bag(replace(drive, frames=frames), tmp_path / f'killed/killed_{number}.mcap')
    assert len(opened(tmp_path / 'killed').frames) == 10


@pytest.mark.parametrize(
    'source, error, words',
    [
        ('nowhere', FileNotFoundError, "'nowhere' does not exist, expected 'drive'"),
        ('~nobody-here/data', FileNotFoundError, "'~nobody-here/data' does not exist"),
        ('.', ValueError, r'no images \(.jpg, .*none of metadata.yaml, .*images/track.*val.json'),
        ('a.docx', ValueError, r"ends with '.docx', expected 'drive'"),
        ('drive:speed=3', ValueError, "option 'speed' of source .* expected one of seconds, seed"),
        ('drive:seed=1.5', ValueError, "option 'seed' .* is '1.5', expected a whole number"),
        ('drive:seconds=long', ValueError, "'long', expected a number"),
        ('drive:seconds=-1', ValueError, 'drive of -1.0 s'),
    ],
)
def test_names_what_was_looked_for(tmp_path, monkeypatch, source, error, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'a.docx').write_text('')
    with pytest.raises(error, match=words):
        open_source(source)


@settings(max_examples=40, deadline=None)
@given(st.integers(5, 60), st.floats(1, 60), st.integers(2, 80))
def test_thinning_keeps_the_first_frame_and_the_mean_rate(recorded_hz, wanted_hz, count):
    frames = tuple(
        Frame(str(i), round(i * 1e9 / recorded_hz), lambda: grey(1, 1)) for i in range(count)
    )
    kept = thin_out(Sequence('s', (), frames), wanted_hz).frames
    assert kept[0] is frames[0]
    seconds = (count - 1) / recorded_hz
    expected = 1 + seconds * min(recorded_hz, wanted_hz)
    assert expected - 2 - 0.02 * expected <= len(kept) <= expected * 1.02 + 1


def test_after_a_hole_the_rhythm_begins_anew():
    stamps_ms = [0, 59, 118, 176, 235, 1000, 1059, 1118, 1176, 1235]
    frames = tuple(Frame(str(stamp), stamp * 1_000_000, lambda: None) for stamp in stamps_ms)
    kept = [int(frame.name) for frame in thin_out(Sequence('holes', (), frames), 5.0).frames]
    assert kept == [0, 235, 1000, 1235]
