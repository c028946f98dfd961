"""Two runs have the same rows, true differences, one cursor and charts of one scale."""

import json
import re

import pytest
from recorded_run import UNSTAMPED

from deadline_perception.extras.report.comparison import compared_figures, write_comparison
from deadline_perception.extras.report.summary import summarise


def cells(*recordings):
    summaries = [summarise(recording, {}) for recording in recordings]
    return {row.label: row.cells()[1:] for row in compared_figures(summaries)}


def test_rows_hold_the_figures_of_both_summaries(recorded, drive):
    quick = recorded(*[{'total_ms': 60.0}] * 4)
    slow = recorded(*[{'total_ms': 90.0}] * 3, {'total_ms': 130.0})
    shown = cells(quick, slow)
    assert shown['delivered'] == ['4', '4', '0']
    assert shown['latency, median, ms'] == ['60.0', '90.0', '+30.0']
    assert shown['deadline misses, % of the delivered'] == ['0.00', '25.00', '+25.00']
    assert 'AP50' not in shown  # neither has ground truth
    shown = cells(quick, drive)
    assert shown['AP50'][0] == shown['AP50 of vehicle'][2] == '–' != shown['AP50'][1]


def test_page_and_summary_show_both_runs_under_one_cursor(drive, images, tmp_path):
    out = tmp_path / 'out'
    summaries = write_comparison([drive, drive], ['a.mcap', 'b.mcap'], out, source=images(60))
    assert json.loads((out / 'summary.json').read_text()) == dict(zip('AB', summaries))
    page = (out / 'report.html').read_text()
    assert re.findall('data-run="(.)"', page) == ['0', '1'] * 3
    data = json.loads(re.search('id="cursor">(.*?)</script>', page)[1])
    assert len(data['runs']) == 2 and data['runs'][0] == data['runs'][1]
    assert all(frame['picture'] for frame in data['runs'][0])
    assert 'could not be matched' not in page
    with pytest.raises(ValueError, match='3 recordings with 3 names, expected 2'):
        write_comparison([drive] * 3, ['a', 'b', 'c'], tmp_path)


def test_runs_without_stamps_or_their_images_say_so(recorded, images, no_charts, tmp_path):
    unstamped = recorded(UNSTAMPED)
    names = ['one.mcap', '<b>two</b>']
    write_comparison([unstamped, recorded({}, {})], names, tmp_path, source=images(7))
    page = (tmp_path / 'report.html').read_text()
    assert 'No image had a valid stamp' in page
    assert 'could not be matched with the stamps of one.mcap' in page
    assert '<b>two</b>' not in page and '&lt;b&gt;two&lt;/b&gt;' in page
    assert 'id="viewer"' not in page
