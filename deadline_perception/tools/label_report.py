"""What `label` says while it works, and at its end."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from deadline_perception.extras.training.label_file import LabelCounts
from deadline_perception.extras.training.label_log import SeenImage
from deadline_perception.extras.training.labelling import Judgement, LabelJob, Teacher
from deadline_perception.extras.training.score_thresholds import LEAST_OBJECTS
from deadline_perception.tools.support.terminal import print_table, progress_bar, say

_NAMED = 10  # unreadable images that are named


@contextmanager
def label_progress(planned: int, done: int) -> Iterator[Callable[[int, LabelJob, SeenImage], None]]:
    """A bar over the images of a run, of which some were done before; gives what is reported of each, see `see_all`, and
    names images that cannot be read."""
    unreadable = 0
    with progress_bar(
        'labelling',
        planned,
        'count',
        'images, {task.fields[unreadable]} left out, left:',
        'left',
        unreadable=0,
    ) as update:
        update(completed=done)

        def tell(done: int, job: LabelJob, seen: SeenImage) -> None:
            nonlocal unreadable
            unreadable += bool(seen.unreadable)
            if seen.unreadable and unreadable <= _NAMED:
                say(f'left out: {job.frame.name}: {seen.unreadable}')
            update(completed=done, unreadable=unreadable)

        yield tell


def report(
    args: argparse.Namespace,
    names: tuple[str, ...],
    teachers: Sequence[Teacher],
    judgement: Judgement,
    counts: LabelCounts,
    jobs: Sequence[LabelJob],
) -> None:
    """One line per class, and what else to know."""
    rows = []
    for label, name in enumerate(names):
        threshold = judgement.thresholds.get(label)
        cells = [name, *(str(part[name]) for part in (counts.kept, counts.added, counts.unsure))]
        if threshold is None:
            cells += ['no model', '-', '-', '-', '-']
        else:
            total = judgement.weights[:, label].sum()
            cells += [
                _shown(threshold.score, 'none'),
                _shown(threshold.precision, '-'),
                _shown(threshold.recall, '-'),
                str(threshold.objects or '-'),
                ' '.join(f'{weight / total:.2f}' for weight in judgement.weights[:, label]),
            ]
        rows.append(cells)
    print_table(
        f'{args.out.name}: {counts.images} images',
        (
            'class',
            'known',
            'added',
            'unsure',
            'threshold',
            'precision',
            'recall',
            'objects',
            'weights',
        ),
        rows,
        left=('class',),
        no_wrap=True,
        least_width=110,
        caption='unsure: neither object nor background; '
        'precision and recall at IoU 0.5, on the images that the threshold was chosen on',
    )
    print(f'weights: {", ".join(teacher.name for teacher in teachers)}')
    for label, threshold in judgement.thresholds.items():
        if threshold.score is None:
            print(
                f'{names[label]} is not labelled: no threshold has a precision of {args.precision} on '
                f'{threshold.objects} objects'
            )
    defaults = [
        names[label]
        for label, threshold in judgement.thresholds.items()
        if threshold.score is not None and not threshold.objects
    ]
    if defaults:
        print(
            f'threshold not measured, {args.min_score} taken, for want of {LEAST_OBJECTS} known objects: '
            f'{", ".join(defaults)}'
        )
    for name, count in counts.dropped.items():
        print(
            f'left out: {count} known boxes of {name}, which is not marked in every image and which no model finds; '
            'label such sources one by one'
        )
    if counts.unreadable:
        print(
            f'left out: {len(counts.unreadable)} images that cannot be read: '
            f'{", ".join(list(counts.unreadable)[:_NAMED])}'
            + ' ...'
            * (len(counts.unreadable) > _NAMED)
        )
    print(
        f'{counts.empty} images hold no object; wrote {args.out}'
        + (f', frames in {args.images}' * any(job.copy for job in jobs))
    )


def _shown(value: float | None, otherwise: str) -> str:
    return otherwise if value is None else f'{value:.2f}'
