"""The search for the conventions of a detector: which of its readings, of the orders and ranges of colours and of
the ways to resize gives the best result on some images.

One axis after the other is varied around the best so far, until none improves: some 12 of the 30 forms of the input,
each with every reading that still has a chance. What such heads usually take stays where another gains next to nothing,
because 20 images cannot tell by chance from better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from deadline_perception.extras.external_models.exported.families import recognise
from deadline_perception.extras.external_models.exported.head import Head, Objects, Output
from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.exported.pixels import (
    CHANNELS,
    RANGES,
    RESIZES,
    InputForm,
)

Names = tuple['str | None', ...]
_FIRST_IMAGES = 8  # that the first step tells the readings apart with
_KEPT_SHARE = 0.5  # of the best value, below which a reading is tried no more
# Over what is usual, to depart from it. On 20 training images an equally good resizing is ahead by up to 3 %, a better
# one (of NanoDet, also on other images) by 6 %. # measured: benchmarks/own_models.py of commit 68d0af47
_LEAST_GAIN = 1.05
_CONFIDENT, _MOST_CONFIDENT = 0.3, 20
_COCO_GAPS = (
    12,
    26,
    29,
    30,
    45,
    66,
    68,
    69,
    71,
    83,
)  # numbers from 1 to 90 that no class has (Lin et al. 2014)
_COCO_CLASSES, _COCO_PLACES = 80, 90
_AXES = {'resize': RESIZES, 'channels': CHANNELS, 'range_name': tuple(RANGES)}


@dataclass(frozen=True)
class Conventions:
    """One choice of everything that a file does not say.

    Attributes:
        form: of the input, of a size.
        head: reading of the outputs.
        names: class of each label, None where it is none.
    """

    form: InputForm
    head: Head
    names: Names

    @property
    def words(self) -> str:
        """In words, for a person."""
        first = next((label for label, name in enumerate(self.names) if name is not None), 0)
        words = [self.form.words, self.head.name]
        words += [f'first class at label {first}'] * (first > 0)
        words += ['labels of COCO with gaps'] * (
            len(self.names) in (_COCO_PLACES, _COCO_PLACES + 1)
        )
        return ', '.join(words)


def label_lists(names: Names) -> list[Names]:
    """The lists of classes that labels may index, given the classes in order, the likeliest first: as they are, after a
    background, before one; the 80 of COCO also in the numbering that leaves gaps, from 0 or 1 on."""
    lists = [tuple(names), (None, *names), (*names, None)]
    if len(names) == _COCO_CLASSES:
        rest = iter(names)
        gaps = tuple(
            None if number in _COCO_GAPS else next(rest) for number in range(1, _COCO_PLACES + 1)
        )
        lists[1:1] = [gaps, (None, *gaps)]
    return lists


def possible_readings(
    outputs: Sequence[Output], names: Names, input_size: tuple[int, int], stated: str = ''
) -> list[tuple[Head, Names]]:
    """All readings of the outputs of a file that fit one of the label lists of its classes, the likeliest first.

    Raises:
        ModelError: none does; says why of the classes as they are.
    """
    found = []
    for known in label_lists(names):
        try:
            # A background after the classes changes nothing where the outputs do not say how many labels there are.
            found += [
                (head, known)
                for head in recognise(outputs, len(known), input_size, stated)
                if head.labels is not None or known[-1] is not None
            ]
        except ModelError:
            continue
    return found or [(head, names) for head in recognise(outputs, len(names), input_size, stated)]


@dataclass(frozen=True)
class Trial:
    """Conventions and what they reach; larger is better."""

    conventions: Conventions
    value: float


def search(
    run: Callable[[InputForm, int], Sequence[np.ndarray]],
    start: InputForm,
    readings: Sequence[tuple[Head, Names]],
    evaluate: Callable[[Conventions, Sequence[Objects]], float],
    images: int,
    *,
    is_8_bit: bool = False,
    least: int = 0,
) -> tuple[Trial, list[Trial]]:
    """Tries conventions; returns the best, and all that were tried on all images, the best first.

    Args:
        run: outputs of one image, given the form of the input and the number of the image.
        start: form to begin with, the usual one.
        readings: that may be, the likeliest first; at least one.
        evaluate: what conventions reach, given the objects that were found with them, image by image: the first ones,
            or all.
        images: how many there are.
        is_8_bit: the input takes pixels as they are, so that no range is tried.
        least: so many conventions are tried on all images at least, where there are as many.
    """
    known: dict[InputForm, list[Trial]] = {}

    def tried(form: InputForm, left: Sequence[tuple[Head, Names]], count: int) -> list[Trial]:
        if form in known:
            return known[form]
        outputs = [run(form, number) for number in range(count)]
        trials = []
        for head, names in left:
            conventions = Conventions(form, head, names)
            trials.append(
                Trial(
                    conventions, evaluate(conventions, [head.decode(values) for values in outputs])
                )
            )
        if count == images:
            known[form] = trials
        return trials

    axes = ('resize', 'channels') if is_8_bit else tuple(_AXES)
    seen = run(start, 0)
    left = [one for one in readings if one[0].fits(seen)] or list(readings)
    few = [
        trial
        for form in ([start] if is_8_bit else varied(start, 'range_name'))
        for trial in tried(form, left, min(images, _FIRST_IMAGES))
    ]
    best, usual = (
        max(few, key=_value),
        max((trial for trial in few if trial.conventions.form == start), key=_value),
    )
    best = best if best.value > usual.value * _LEAST_GAIN else usual
    worth = {id(trial.conventions.head) for trial in few if trial.value >= _KEPT_SHARE * best.value}
    left = [one for one in left if id(one[0]) in worth]
    best = max(tried(best.conventions.form, left, images), key=_value)
    before = None
    while before is not best:
        before = best
        for axis in axes:
            for form in varied(best.conventions.form, axis):
                trial = max(tried(form, left, images), key=_value)
                is_usual = getattr(best.conventions.form, axis) == getattr(start, axis)
                if trial.value > best.value * (_LEAST_GAIN if is_usual else 1.0):
                    best = trial
    further = [
        form
        for axis in axes
        for near in varied(best.conventions.form, axis)
        for other in axes
        for form in varied(near, other)
    ]
    for form in further:
        if sum(map(len, known.values())) < least:
            tried(form, readings, images)
    return best, sorted(
        (trial for trials in known.values() for trial in trials), key=_value, reverse=True
    )


def varied(form: InputForm, axis: str) -> list[InputForm]:
    """The forms that differ from one of `InputForm.of_range` in an axis alone; itself among them."""
    now = {name: getattr(form, name) for name in _AXES}
    return [InputForm.of_range(form.size, **{**now, axis: choice}) for choice in _AXES[axis]]


def _value(trial: Trial) -> float:
    return trial.value


def confidence(found: Sequence[Objects], input_size: tuple[int, int]) -> float:
    """How sure a detector is of boxes that can be boxes, where nothing is annotated: the mean over images of the sum of
    its highest scores, those of boxes that cannot be any subtracted."""
    total = 0.0
    for objects in found:
        scores = np.clip(objects.scores, -1.0, 1.0)
        order = np.argsort(-scores)[:_MOST_CONFIDENT]
        signs = np.where(possible(objects.boxes[order], input_size), 1.0, -1.0)
        total += float((signs * scores[order]).sum())
    return total / max(1, len(found))


def possible(boxes: np.ndarray, input_size: tuple[int, int]) -> np.ndarray:
    """Which boxes `[N, 4]` in px of the input can be of objects in it: of some px, and inside but for a tenth."""
    if not len(boxes):
        return np.zeros(0, bool)
    height, width = input_size
    sides = boxes[:, 2:] - boxes[:, :2]
    limits = np.float32([width, height])
    inside = (boxes[:, :2] > -0.1 * limits).all(1) & (boxes[:, 2:] < 1.1 * limits).all(1)
    return np.isfinite(boxes).all(1) & (sides >= 2.0).all(1) & inside


def is_believable(head: Head, values: Sequence[np.ndarray], input_size: tuple[int, int]) -> bool:
    """Whether outputs of a photograph may be read so: their scores have that form, and what is found can be objects."""
    if not head.fits(values):
        return False
    try:
        found = head.decode(values)
    except (ModelError, ValueError, IndexError):
        return False
    return not implausible([found], input_size)


def implausible(found: Sequence[Objects], input_size: tuple[int, int]) -> str:
    """What shows that boxes are read wrongly, whatever the images hold; empty where nothing does."""
    scores = np.concatenate([objects.scores for objects in found]) if found else np.zeros(0)
    boxes = np.concatenate([objects.boxes for objects in found]) if found else np.zeros((0, 4))
    if len(scores) and not (np.isfinite(scores).all() and np.isfinite(boxes).all()):
        return 'boxes or scores hold NaN or infinity'
    if len(scores) and (scores.min() < 0.0 or scores.max() > 1.0):
        return f'scores lie in [{scores.min():.3g}, {scores.max():.3g}] and not in [0, 1]'
    sure = boxes[scores >= _CONFIDENT]
    if not len(sure):
        return ''
    height, width = input_size
    centres, sides = (sure[:, :2] + sure[:, 2:]) / 2, sure[:, 2:] - sure[:, :2]
    inside = ((centres >= 0.0) & (centres <= (width, height))).all(1)
    if (inside & (sides >= 1.0).all(1)).mean() < 0.5:
        return 'most boxes lie outside the image or have no extent'
    spots = np.unique(np.rint((sure[:, :2] + sure[:, 2:]) / 8), axis=0)
    if len(sure) >= 20 and len(spots) <= max(1, len(sure) // 20):
        return 'all boxes lie on one spot'
    return ''
