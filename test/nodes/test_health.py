from __future__ import annotations

import pytest

from deadline_perception.nodes.health import Health, Level, Report, as_text


@pytest.mark.parametrize(
    ('value', 'text'),
    [
        (True, 'true'),
        (False, 'false'),
        (1.23456789, '1.23457'),
        (7, '7'),
        ('word', 'word'),
        (float('nan'), 'nan'),
    ],
)
def test_details_are_texts(value, text):
    assert as_text(value) == text


def test_report_is_published_by_timer_with_level_message_and_details(observer, wait_for):
    reports = [Report(Level.WARN, 'too warm', {'degrees': 31.5, 'is_on': True})]
    health = Health(observer.node, lambda: reports[-1], hardware_id='oven')
    wait_for(lambda: observer.status('observer')[0] == 1, 'a warning')
    assert observer.status('observer') == (1, 'too warm', {'degrees': '31.5', 'is_on': 'true'})
    reports.append(Report(Level.ERROR, 'on fire'))
    wait_for(lambda: observer.status('observer') == (2, 'on fire', {}), 'an error')
    assert health.hardware_id == 'oven'
