"""The report is one page that needs nothing else, and its pictures belong to its frames."""
from __future__ import annotations

import json
from html.parser import HTMLParser

import numpy as np
import pytest
from recorded_run import NAMES, SECOND_NS, RunWriter, write_drive

from deadline_perception.datasets.records import Frame, Sequence
from deadline_perception.evaluation.gallery import PICTURES, chosen_frames, images_of
from deadline_perception.evaluation.recorded_bag import read_recording
from deadline_perception.evaluation.report import write_report

START_NS = 1_700_000_000 * SECOND_NS
VOID = {'meta', 'img', 'br'}


class Page(HTMLParser):
    """Checks that tags are balanced; collects addresses and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open, self.addresses, self.words = [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.addresses += [value for name, value in attributes if name in ('src', 'href', 'xlink:href')]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.addresses += [value for name, value in attributes if name in ('src', 'href', 'xlink:href')]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def images(count: int, start_ns: int = 0, step_ns: int = SECOND_NS // 10) -> Sequence:
    frames = [Frame(str(index), start_ns + index * step_ns, lambda: np.full((380, 640, 3), 90, np.uint8))
              for index in range(count)]
    return Sequence('plain', NAMES, tuple(frames))


def test_page_is_complete_balanced_and_asks_for_nothing_outside_itself(tmp_path):
    write_drive(tmp_path / 'run', frames=60)
    recording = read_recording(tmp_path / 'run')
    summary = write_report(recording, tmp_path / 'out', source=images(60), facts={'ros_distro': 'jazzy'},
                           notes=['A note with <angle> brackets.'])
    page = Page((tmp_path / 'out' / 'report.html').read_text())
    text = ' '.join(page.words)
    assert all(address.startswith(('data:image/jpeg;base64,', '#')) for address in page.addresses)
    assert sum(address.startswith('data:') for address in page.addresses) == PICTURES
    for title in ('Where every image went', 'Speed, time allowed, time taken', 'What the network did',
                  'Where the time went', 'Did the bounds hold?', 'How good were the detections?', 'Paths used most',
                  'The tightest frames', 'What it saw', 'The machine', 'A note with <angle> brackets.'):
        assert title in text
    assert json.loads((tmp_path / 'out' / 'summary.json').read_text()) == summary
    assert not list((tmp_path / 'out').glob('*.part'))


def test_page_says_why_it_has_no_pictures(tmp_path):
    with RunWriter(tmp_path / 'run') as run:
        run.latency(START_NS)
        run.latency(START_NS + SECOND_NS)
    recording = read_recording(tmp_path / 'run')
    write_report(recording, tmp_path / 'without')
    assert 'images were not at hand' in (tmp_path / 'without' / 'report.html').read_text()
    write_report(recording, tmp_path / 'foreign', source=images(7))
    assert 'could not be matched' in (tmp_path / 'foreign' / 'report.html').read_text()


@pytest.fixture(scope='module')
def drive(tmp_path_factory):
    bag = tmp_path_factory.mktemp('drive') / 'run'
    write_drive(bag, frames=60, start_ns=START_NS)
    return read_recording(bag)


def test_images_are_matched_by_stamp_order_or_rhythm(drive):
    sent = drive.sent_stamps_ns
    shifted = images(90, START_NS - 3 * SECOND_NS)  # same stamps, from its 31st frame on
    assert images_of(drive, shifted)[sent[0]].name == '30'
    assert images_of(drive, images(60))[sent[5]].name == '5'  # moved in time, all of them sent
    assert images_of(drive, images(80, step_ns=SECOND_NS // 20))[sent[59]].name == '59'  # played at half the rate


def test_images_of_another_rhythm_are_not_matched(drive):
    frames = list(images(100).frames)
    source = Sequence('gap', NAMES, tuple(frames[:20] + frames[60:] + [
        Frame(f'x{index}', 20 * SECOND_NS + index, frames[0].load_bgr) for index in range(20)]))
    assert images_of(drive, source) == {}


def test_pictures_are_spread_and_show_misses(drive):
    missed = [frame for frame in drive.frames if not frame.in_time]
    chosen = chosen_frames(list(drive.frames))
    stamps = [frame.stamp_ns for frame in chosen]
    assert len(chosen) == PICTURES and stamps == sorted(set(stamps))
    assert sum(not frame.in_time for frame in chosen) == min(3, len(missed)) > 0
    assert len(chosen_frames(list(drive.frames)[:2])) == 2
