from dataclasses import replace

import numpy as np
import pytest
from made_up_labels import known
from plain_images import grey, noise

from deadline_perception.extras.data.records import Frame, GroundTruth, Sequence
from deadline_perception.extras.training import samples
from deadline_perception.extras.training.samples import (
    AUGMENTATIONS,
    SampleSource,
    _move,
    _repeat_factors,
)


def _source(names, *frames, size=(64, 96), **options):
    """Of one sequence; a frame is its image and rows of its known objects."""
    made = [
        Frame(str(number), number, lambda image=image: image, None, known(*rows))
        for number, (image, rows) in enumerate(frames)
    ]
    return SampleSource([Sequence('one', names, tuple(made))], [1.0], size, **options)


def _drawn(source, count, **options):
    return [source.draw(np.random.default_rng(seed), **options) for seed in range(count)]


def _bright_square(without=()):
    image = grey(96, 128)
    image[30:50, 60:90] = 255
    return _source(('square',), (image, [[60, 30, 90, 50, 0, 0]]), size=(96, 128), without=without)


@pytest.mark.parametrize('name', AUGMENTATIONS)
def test_each_change_comes_alone(name):
    source, plain = _bright_square(AUGMENTATIONS.keys() - {name}), _bright_square(AUGMENTATIONS)
    generator, expected = np.random.default_rng(0), plain.draw(np.random.default_rng(0)).image_bgr
    changed = [not np.array_equal(source.draw(generator).image_bgr, expected) for _ in range(60)]
    assert any(changed)


def _within(boxes, margin, size):
    """True `[h, w]` for pixels whose centre lies in a box that is so many px larger on every side."""
    y, x = (np.mgrid[: size[0], : size[1]] + 0.5)[..., None]
    left, top, right, bottom = boxes.T
    return (
        (x > left - margin) & (x < right + margin) & (y > top - margin) & (y < bottom + margin)
    ).any(2)


@pytest.mark.parametrize('kind', ['whole', 'window', 'mosaic'])
def test_every_bright_pixel_lies_in_a_box_and_every_box_on_bright_pixels(kind, monkeypatch):
    # Scales as little as what the assertions on edges allow.
    monkeypatch.setattr(samples, '_LEAST_ZOOM', 1.0)
    monkeypatch.setattr(samples, '_MOST_MAGNIFIED', 1.6)
    source, seen = _bright_square(), 0
    for seed in range(60):
        generator = np.random.default_rng(seed)
        if kind == 'mosaic':
            sample = source._mosaic(generator, (96, 128))
        elif kind == 'window':
            sample = source._view(generator, (64, 64), (0.75, 1.6), whole=(96, 128))
        else:
            sample = source._view(generator, (96, 128), (0.75, 1.6))
        bright, boxes = sample.image_bgr[..., 0] > 127, sample.ground_truth.boxes_xyxy_px
        assert not (_within(boxes, -0.4, bright.shape) & ~bright).any()
        if len(boxes) == (4 if kind == 'mosaic' else 1):  # none is out of sight
            assert not (bright & ~_within(boxes, 0.15, bright.shape)).any()
            seen += 1
    assert seen > 5


def _marked(name, labels):
    objects = known(*([10, 10, 30, 30, label, 0] for label in labels))
    return Frame(name, int(name), lambda: grey(64, 96), ground_truth=objects)


def test_images_with_rare_classes_are_drawn_more_often_within_the_share_of_their_sequence():
    frames = (_marked('0', [0, 1]), _marked('1', [0]), _marked('2', [0]), _marked('3', []))
    # Class 0 is in more than half of the images, class 1 in a quarter: sqrt(0.5 / 0.25).
    factors = _repeat_factors([frame.ground_truth for frame in frames], 2)
    assert factors == pytest.approx([2**0.5, 1, 1, 1])
    parts = [Sequence('part', ('common', 'rare'), part) for part in (frames, frames[1:3])]
    chances = SampleSource(parts, [0.6, 0.2], (64, 96))._probabilities
    assert chances[:4] == pytest.approx(0.75 * np.array([2**0.5, 1, 1, 1]) / (3 + 2**0.5))
    assert chances[4:] == pytest.approx([0.125, 0.125])


SMALL = [[10, 10, 30, 20, 0, 0], [10, 40, 50, 48, 1, 0]]


@pytest.mark.parametrize(
    'rows, scale, crowd',
    [
        # Of an object that is cut, a part that fills the view is known, and a sliver is not.
        ([[-200, 0, 20, 90, 0, 0], [100, 10, 200, 30, 0, 0]], 1.0, [False, True]),
        # Under 64 px2 they are neither right nor wrong, whatever they were before.
        (SMALL, 1.0, [False, False]),
        (SMALL, 0.55, [True, False]),
        (SMALL, 0.4, [True, True]),
    ],
)
def test_slivers_and_objects_that_become_small_are_crowd(rows, scale, crowd):
    assert _move(known(*rows), scale * np.eye(2, 3), (96, 128)).crowd.tolist() == crowd


def test_digest_tells_other_data(shapes):
    def digest(sequence=shapes, share=1.0):
        return SampleSource([sequence], [share], (64, 96)).digest

    first, *others = shapes.frames
    known = first.ground_truth
    moved = replace(known, boxes_xyxy_px=known.boxes_xyxy_px + 1)
    crowd = replace(known, crowd=~known.crowd)
    firsts = [replace(first, ground_truth=one) for one in (moved, crowd)]
    firsts.append(replace(first, name='other'))
    changed = [tuple(others), *((one, *others) for one in firsts)]
    digests = {digest(replace(shapes, frames=frames)) for frames in changed}
    assert len(digests | {digest(), digest(share=0.5)}) == 6
    assert digest(replace(shapes, name='same')) == digest()


def test_sequences_and_changes_that_do_not_fit_are_refused(shapes):
    with pytest.raises(ValueError, match='augmentations to leave out are rain, expected some'):
        _bright_square(['rain'])
    bare = replace(shapes, name='bare', frames=(replace(shapes.frames[0], ground_truth=None),))
    with pytest.raises(ValueError, match="'bare' has no annotated frame"):
        SampleSource([bare], [1.0], (64, 96))
    with pytest.raises(ValueError, match='shapes names square, bar, the network learns cat'):
        SampleSource([shapes], [1.0], (64, 96), ('cat',))


def test_samples_say_which_classes_their_source_names(shapes):
    """Labels follow the names; a mosaic is made of images of sources that name the same classes."""
    frames = [
        replace(one, ground_truth=GroundTruth(one.ground_truth.boxes_xyxy_px[1:], [0], [False]))
        for one in shapes.frames
    ]
    bars = Sequence('bars', ('bar',), tuple(frames))
    source = SampleSource([bars, shapes], [0.5, 0.5], (64, 96))
    assert source.class_names == ('bar', 'square')
    mosaics = [source._mosaic(np.random.default_rng(seed), (64, 96)) for seed in range(80)]
    seen = _drawn(source, 80) + mosaics
    assert all(sample.named[sample.ground_truth.labels].all() for sample in seen)
    assert {tuple(sample.named) for sample in seen} == {(True, True), (True, False)}


def test_an_image_that_is_too_long_to_be_warped_is_left_out():
    plain = grey(64, 96), [[30, 20, 54, 44, 0, 0]]
    with pytest.warns(UserWarning, match='1 is left out, .* it is 32767 x 3 px.*32767'):
        _drawn(_source(('square',), plain, (grey(3, 32_767), [])), 20)
    samples = _drawn(_source(('square',), plain, (grey(3, 32_766), [])), 20)
    assert {sample.image_bgr.shape for sample in samples} == {(64, 96, 3)}


def test_images_without_any_object_are_drawn():
    source = _source(('square',), *[(noise(64, 96, seed), []) for seed in range(4)])
    samples = _drawn(source, 10, crop=(32, 32))
    assert all(len(sample.ground_truth) == 0 for sample in samples)


def test_windows_are_cut_around_rare_objects_more_often():
    """Sixteen common objects and a rare one: of the two in one image the rare one is chosen four times out of five."""
    both = grey(64, 256), [[10, 20, 30, 40, 0, 0], [226, 20, 246, 40, 1, 0]]
    others = [(grey(64, 96), [[10, 10, 30, 30, 0, 0]])] * 15
    source = _source(('common', 'rare'), both, *others, size=(64, 256))
    source._probabilities = np.eye(16)[0]
    windows = [sample.ground_truth for sample in _drawn(source, 300, crop=(64, 64))]
    whole = [set(window.labels[~window.crowd].tolist()) for window in windows]
    common, rare = (sum(label in labels for labels in whole) for label in (0, 1))
    assert rare > 150 and 2 * common < rare


def test_some_views_show_an_image_of_any_aspect_as_a_frame_does():
    """A square image at an input twice as wide: its square object stays square, whole and uncut."""
    frame = grey(64, 64), [[16, 16, 48, 48, 0, 0]]
    source = _source(('x',), frame, size=(64, 128), without=['mosaic'])
    boxes = [sample.ground_truth.boxes_xyxy_px[0] for sample in _drawn(source, 60)]
    whole = sum(np.allclose([x2 - x1, y1, y2], [32, 16, 48], atol=0.1) for x1, y1, x2, y2 in boxes)
    assert 5 < whole < 40
