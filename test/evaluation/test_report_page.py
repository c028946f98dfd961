"""The page is balanced HTML that needs nothing outside itself, for a usual run and for one with strange words."""
from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

import pytest
from recorded_run import SECOND_NS, RunWriter, write_drive

from deadline_perception.evaluation.gallery import Picture
from deadline_perception.evaluation.recorded_bag import read_recording
from deadline_perception.evaluation.report_page import report_page
from deadline_perception.evaluation.summary import summarise

START_NS = 1_700_000_000 * SECOND_NS
VOID = {'meta', 'img', 'br'}


class Page(HTMLParser):
    """Checks that tags are balanced; collects addresses and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open, self.addresses, self.words, self.count = [], [], [], Counter()
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.count[tag] += 1
        self.addresses += [value for name, value in attributes if name in ('src', 'href', 'xlink:href')]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.addresses += [value for name, value in attributes if name in ('src', 'href', 'xlink:href')]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def page_of(recording, pictures=(), facts=None, notes=()) -> Page:
    return Page(report_page(recording, summarise(recording, {}), pictures, facts or {}, notes))


@pytest.fixture(scope='module')
def drive(tmp_path_factory):
    bag = tmp_path_factory.mktemp('drive') / 'run'
    write_drive(bag, frames=60)
    return read_recording(bag)


def test_has_every_section_and_asks_for_nothing_outside_itself(drive):
    picture = Picture(drive.frames[0], 'data:image/jpeg;base64,AAAA')
    page = page_of(drive, [picture], {'ros_distro': 'jazzy'}, ['A note with <angle> brackets, and `a command`.'])
    text = ' '.join(page.words)
    for title in ('Where every image went', 'Speed, time allowed, time taken', 'What the network did',
                  'Where the time went', 'Did the bounds hold?', 'How good were the detections?', 'Paths used most',
                  'The tightest frames', 'What it saw', 'The machine', 'A note with <angle> brackets', 'jazzy'):
        assert title in text
    assert 'a command' in page.words  # in an element of its own
    assert picture.data_uri in page.addresses
    assert all(address.startswith(('data:image/jpeg;base64,', '#')) for address in page.addresses)


def test_words_of_a_recording_cannot_break_out_of_the_page(tmp_path):
    with RunWriter(tmp_path / 'run') as run:
        for index in range(2):
            run.latency(START_NS + index * SECOND_NS, path='</script><script>alert(1)</script>', device='<b>cpu')
            run.decision(START_NS + index * SECOND_NS, reason='</script><img src=x>')
    page = page_of(read_recording(tmp_path / 'run'))
    assert page.count['script'] == 2 and 'x' not in page.addresses  # the data and the page's own script


def test_a_run_without_truth_says_that_accuracy_was_not_scored(tmp_path):
    with RunWriter(tmp_path / 'run') as run:
        run.latency(START_NS)
    text = ' '.join(page_of(read_recording(tmp_path / 'run')).words)
    assert 'no ground truth' in text and 'What it saw' not in text


def test_a_run_without_any_valid_stamp_can_still_be_shown(tmp_path):
    with RunWriter(tmp_path / 'run') as run:
        run.latency(0, total_ms=float('nan'), age_ms=float('nan'))
    assert 'No image had a valid stamp' in ' '.join(page_of(read_recording(tmp_path / 'run')).words)
