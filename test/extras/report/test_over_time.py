"""What the page's script reads of each frame is that frame's, and safe to show."""

from deadline_perception.extras.report.over_time import cursor_data, run_over_time, shared_scales


def cursor_of(recording, pictures):
    run = run_over_time(recording, pictures)
    return cursor_data([run], shared_scales([run]))


def test_words_of_a_recording_are_escaped(recorded):
    fields = {'path': '<img src=x onerror=alert(1)>', 'decision': {'reason': '<b>not mine</b>'}}
    text = cursor_of(recorded(fields), {})['runs'][0][0]['text']
    assert '<img' not in text and '<b>not' not in text and '&lt;img src=x' in text
