"""The report's two files are complete; the page needs nothing outside itself, also for a run with strange words;
the sentences at its top say what the figures say.
"""

import json
import re
from pathlib import Path

import pytest
from recorded_run import UNSTAMPED

from deadline_perception.extras.report import report
from deadline_perception.extras.report.report import report_page, write_report
from deadline_perception.extras.report.summary import summarise
from deadline_perception.extras.report.verdict import verdict

SUMMARY = {
    'frames_delivered': 300,
    'frames_age_unknown': 0,
    'frames_lost': 0,
    'deadline_misses': 5,
    'deadline_miss_ratio': 5 / 300,
    'feasible_frames': 290,
    'feasible_misses': 3,
    'feasible_miss_ratio': 3 / 290,
    'held_up_frames': 0,
}


def test_page_says_why_it_has_no_pictures(tmp_path, recorded, images, no_charts):
    recording = recorded({}, {})
    write_report(recording, tmp_path / 'without')
    assert 'images were not at hand' in (tmp_path / 'without/report.html').read_text()
    write_report(recording, tmp_path / 'foreign', source=images(7))
    assert 'could not be matched' in (tmp_path / 'foreign/report.html').read_text()


def test_page_asks_the_network_for_nothing():
    page = Path(report.__file__).with_name('page.html.j2').read_text(encoding='utf-8')
    parts = [
        re.search(f'<{tag}>\n(.*?)</{tag}>', page, re.DOTALL)[1] for tag in ('style', 'script')
    ]
    words = r'https?:|//[a-z]|url\(|@import|\bfetch\b|XMLHttpRequest|\bimport\b'
    assert not re.search(words, ''.join(parts))


def page_of(recording) -> str:
    return report_page(recording, summarise(recording, {}), (), {}, (), {})


def test_words_of_a_recording_cannot_break_out_of_the_page(recorded):
    fields = {
        'path': '</script><script>alert(1)</script>',
        'device': '<b>cpu',
        'decision': {'reason': '</script><img src=x>'},
    }
    page = page_of(recorded(*[fields] * 2))
    # the data and the page's own script
    assert page.count('<script') == page.count('</script>') == 2
    addresses = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert all(one.startswith(('data:image/jpeg;base64,', '#')) for one in addresses)
    assert '<b>cpu' not in page and '<img src=x>' not in page
    data = json.loads(re.search('id="cursor">(.*?)</script>', page)[1])
    text = data['runs'][0][0]['text']  # becomes part of the page as it is moved over
    assert '<img' not in text and '<script' not in text and '&lt;img src=x' in text


@pytest.mark.parametrize(
    'fields, words', [({}, 'no ground truth'), (UNSTAMPED, 'No image had a valid')]
)
def test_a_run_without_ground_truth_or_valid_stamps_says_so(recorded, no_charts, fields, words):
    text = page_of(recorded(fields))
    assert words in text and 'What it saw' not in text


@pytest.mark.parametrize(
    'changes, grade, words',
    [
        ({}, 'good', '295 of 300 delivered frames came in time'),
        ({}, 'good', '1.0 % of 290 frames missed; on 10 no bound fitted, and 2 of those missed.'),
        ({'feasible_miss_ratio': 0.02}, 'bad', '2.0 % of 290 frames missed'),
        ({'frames_lost': 2}, 'bad', '2 images were lost'),
        ({'frames_lost': 1}, 'bad', '1 image was lost'),
        ({'frames_age_unknown': 10}, 'good', '1.0 % of 290 frames missed. No image'),
        ({'frames_age_unknown': 5}, 'good', '295 delivered frames came in time.</b> 5 further'),
        ({'frames_age_unknown': 300, 'deadline_misses': 0}, 'bad', 'no deadline can be judged'),
        ({'feasible_miss_ratio': None}, 'bad', 'too short for even the cheapest path on every'),
    ],
)
def test_verdict_is_good_only_below_two_percent_and_without_loss(changes, grade, words):
    found, sentence = verdict(SUMMARY | changes)
    assert found == grade and words in sentence
