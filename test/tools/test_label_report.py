import argparse
from pathlib import Path

import numpy as np

from deadline_perception.extras.data.records import Frame
from deadline_perception.extras.training.label_file import LabelCounts
from deadline_perception.extras.training.label_log import SeenImage
from deadline_perception.extras.training.labelling import Judgement, LabelJob, Teacher
from deadline_perception.extras.training.score_thresholds import ScoreThreshold
from deadline_perception.tools.label_report import label_progress, report


def job(number):
    return LabelJob(Frame(f'{number}.png', number, lambda: None), frozenset(), f'{number}.png')


def test_progress_names_the_first_unreadable_images_and_counts_all(capsys):
    with label_progress(30, 4) as tell:
        for number in range(5, 31):
            tell(number, job(number), SeenImage((0, 0), (), 'cannot be decoded'))
    said = capsys.readouterr().err
    assert said.count('cannot be decoded') == 10
    assert '30/30 images, 26 left out' in said


def test_the_report_says_what_is_labelled_how_sure_that_is_and_what_is_not(capsys):
    names = ('vehicle', 'person', 'sign', 'dragon')
    counts = LabelCounts(images=9, empty=2, unreadable={'3.png': 'cannot be decoded'})
    counts.kept['vehicle'], counts.added['person'] = 7, 5
    counts.unsure['person'], counts.dropped['dragon'] = 3, 4
    given = (0.31, 40, 0.75, 0.5), (0.5,), (None, 50, 0.2, 0.1)
    thresholds = {label: ScoreThreshold(*values) for label, values in enumerate(given)}
    teachers = [Teacher(name, None, np.array([0])) for name in ('one', 'other')]
    weights = np.array([[3.0, 1.0, 1.0, 0.0], [1.0, 0.0, 1.0, 0.0]])
    args = argparse.Namespace(
        out=Path('labels.json'), images=Path('labels'), min_score=0.5, precision=0.5
    )
    report(args, names, teachers, Judgement(weights, thresholds), counts, [job(0)])
    told = capsys.readouterr().out
    table = [line.split('│')[1:-1] for line in told.splitlines() if line.startswith('│')]
    rows = [[cell.strip() for cell in line] for line in table]
    assert rows == [
        ['vehicle', '7', '0', '0', '0.31', '0.75', '0.50', '40', '0.75 0.25'],
        ['person', '0', '5', '3', '0.50', '-', '-', '-', '1.00 0.00'],
        ['sign', '0', '0', '0', 'none', '0.20', '0.10', '50', '0.50 0.50'],
        ['dragon', '0', '0', '0', 'no model', '-', '-', '-', '-'],
    ]
    for words in (
        'sign is not labelled: no threshold has a precision of 0.5 on 50 objects',
        'threshold not measured, 0.5 taken, for want of 30 known objects: person',
        'left out: 4 known boxes of dragon',
        'left out: 1 images that cannot be read: 3.png',
        '2 images hold no object; wrote labels.json',
    ):
        assert words in told, words
