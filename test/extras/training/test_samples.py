from dataclasses import replace
from functools import partial

import cv2
import numpy as np
import pytest
from made_up_labels import known
from plain_images import grey, noise

from deadline_perception.core.images.image_file import load_image
from deadline_perception.extras.data.records import Frame, GroundTruth, Sequence
from deadline_perception.extras.training import samples
from deadline_perception.extras.training.samples import (
    AUGMENTATIONS,
    SampleSource,
    TrainingDataLost,
    _move,
    _photometric,
    _repeat_factors,
)


@pytest.mark.parametrize('size', [None, (96, 128)])
def test_samples_have_the_size_asked_for_and_boxes_that_fit(shapes, size):
    source = SampleSource([shapes], [1.0], (64, 96))
    height, width = size or (64, 96)
    generator = np.random.default_rng(0)
    objects = 0
    for _ in range(60):
        sample = source.draw(generator, size)
        assert sample.image_bgr.shape == (height, width, 3) and sample.image_bgr.dtype == np.uint8
        boxes = sample.ground_truth.boxes_xyxy_px
        if len(boxes):
            assert boxes.min() >= 0
            assert (boxes <= np.float32([width + 0.01, height + 0.01] * 2)).all()
            assert (boxes[:, 2:] > boxes[:, :2]).all()
        objects += int((~sample.ground_truth.crowd).sum())
    assert objects > 30


def _source(names, *frames, size=(64, 96), **options):
    """Of one sequence; a frame is its image and rows of its known objects."""
    made = [
        Frame(str(number), number, lambda image=image: image, None, known(*rows))
        for number, (image, rows) in enumerate(frames)
    ]
    return SampleSource([Sequence('one', names, tuple(made))], [1.0], size, **options)


def _drawn(source, count, **options):
    """Samples of as many seeds."""
    return [source.draw(np.random.default_rng(seed), **options) for seed in range(count)]


def _bright_square(without=()):
    """A source of one image of 128 x 96 px, black but for one object."""
    image = grey(96, 128)
    image[30:50, 60:90] = 255
    frame = image, [[60, 30, 90, 50, 0, 0]]
    return _source(('square',), frame, size=(96, 128), without=without)


@pytest.fixture
def sharp(monkeypatch):
    """Scales as little as what the assertions on edges allow."""
    monkeypatch.setattr(samples, '_LEAST_ZOOM', 1.0)
    monkeypatch.setattr(samples, '_MOST_MAGNIFIED', 1.6)


def test_images_change_in_no_way_that_is_left_out():
    source, generator = _bright_square(AUGMENTATIONS), np.random.default_rng(0)
    for _ in range(20):
        sample = source.draw(generator)
        assert np.array_equal(sample.image_bgr[30:50, 60:90], np.full((20, 30, 3), 255))
        assert sample.image_bgr.sum() == (20 * 30 * 3 * 255)
        assert sample.ground_truth.boxes_xyxy_px.tolist() == [[60, 30, 90, 50]]


@pytest.mark.parametrize('name', AUGMENTATIONS)
def test_each_change_comes_alone(name):
    source, plain = _bright_square(AUGMENTATIONS.keys() - {name}), _bright_square(AUGMENTATIONS)
    generator, expected = np.random.default_rng(0), plain.draw(np.random.default_rng(0)).image_bgr
    changed = [not np.array_equal(source.draw(generator).image_bgr, expected) for _ in range(60)]
    assert any(changed)


def test_a_change_that_there_is_not_cannot_be_left_out():
    with pytest.raises(ValueError, match='augmentations to leave out are rain, expected some'):
        _bright_square(['rain'])


def _within(boxes, margin, size):
    """True `[h, w]` for pixels whose centre lies in a box that is so many px larger on every side."""
    y, x = (np.mgrid[: size[0], : size[1]] + 0.5)[..., None]
    left, top, right, bottom = boxes.T
    return (
        (x > left - margin) & (x < right + margin) & (y > top - margin) & (y < bottom + margin)
    ).any(2)


@pytest.mark.parametrize('kind', ['whole', 'window', 'mosaic'])
def test_every_bright_pixel_lies_in_a_box_and_every_box_on_bright_pixels(kind, sharp):
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


@pytest.mark.parametrize('size', [(128, 192), (64, 96), (48, 72)])
def test_a_view_at_the_size_of_a_frame_is_what_a_frame_becomes(size):
    """As `MultiPathDetector.preprocess` resizes it, or its mirror image; the outermost pixels blend with the grey."""
    image = cv2.GaussianBlur(noise(96, 144), (0, 0), 2.0)
    source = _source(('x',), (image, []), size=size)
    resized = cv2.resize(image, size[::-1], interpolation=cv2.INTER_LINEAR).astype(int)
    mirrored = set()
    for seed in range(8):
        view = source._view(np.random.default_rng(seed), size, (1.0, 1.0)).image_bgr.astype(int)
        errors = [np.abs(view - wanted)[1:-1, 1:-1].max() for wanted in (resized, resized[:, ::-1])]
        assert min(errors) <= 2 < max(errors)
        mirrored.add(int(np.argmin(errors)))
    assert mirrored == {0, 1}


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


def test_some_views_show_an_image_of_any_aspect_as_a_frame_is_stretched():
    """A square image at an input twice as wide: its square object is twice as wide as high, whole and uncut."""
    frame = grey(64, 64), [[16, 16, 48, 48, 0, 0]]
    source = _source(('x',), frame, size=(64, 128), without=['mosaic'])
    boxes = [sample.ground_truth.boxes_xyxy_px[0] for sample in _drawn(source, 60)]
    whole = sum(np.allclose(box, [32, 16, 96, 48], atol=0.1) for box in boxes)
    assert 5 < whole < 40


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


def test_images_beyond_the_memory_are_read_whenever_they_are_drawn(shapes):
    reads = []

    def counted(frame):
        return replace(frame, load_bgr=lambda: reads.append(frame.name) or frame.load_bgr())

    watched = replace(shapes, frames=tuple(counted(frame) for frame in shapes.frames))
    drawn = {}
    for images in (0, 2, 6):
        reads.clear()
        source = SampleSource([watched], [1.0], (64, 96), held_bytes=images * 64 * 96 * 3)
        generator = np.random.default_rng(0)
        drawn[images] = [source.draw(generator).image_bgr for _ in range(40)]
        assert sum(reads.count(name) == 1 for name in set(reads)) >= images
        assert (len(reads) > 20) if images < 6 else sorted(reads) == sorted(set(reads))
    for images in (2, 6):
        assert all(np.array_equal(*pair) for pair in zip(drawn[0], drawn[images]))


def test_digest_tells_other_data(shapes):
    def digest(sequence=shapes, share=1.0):
        return SampleSource([sequence], [share], (64, 96)).digest

    first, *others = shapes.frames
    ground_truth = first.ground_truth
    moved = replace(ground_truth, boxes_xyxy_px=ground_truth.boxes_xyxy_px + 1)
    crowd = replace(ground_truth, crowd=~ground_truth.crowd)
    changed = [
        replace(shapes, frames=(replace(first, ground_truth=moved), *others)),
        replace(shapes, frames=(replace(first, ground_truth=crowd), *others)),
        replace(shapes, frames=(replace(first, name='other'), *others)),
        replace(shapes, frames=tuple(others)),
    ]
    assert len({digest(), digest(share=0.5), *(digest(sequence) for sequence in changed)}) == 6
    assert digest(replace(shapes, name='same')) == digest()


def test_brighter_stays_brighter():
    ramp = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, 2).repeat(8, 0)
    for seed in range(60):
        changed = _photometric(ramp, np.random.default_rng(seed))[4].astype(int).sum(1)
        smooth = np.convolve(changed, np.ones(32) / 32, 'valid')
        assert (np.diff(smooth) > -3).all()


def test_sequences_that_do_not_fit_are_refused(shapes):
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
    seen = set()
    for seed in range(80):
        for sample in (
            source.draw(np.random.default_rng(seed)),
            source._mosaic(np.random.default_rng(seed), (64, 96)),
        ):
            seen.add(tuple(sample.named))
            assert sample.named[sample.ground_truth.labels].all()
    assert seen == {(True, True), (True, False)}
    names = ('bar', 'square')
    both = SampleSource([replace(bars, class_names=names), shapes], [0.5, 0.5], (64, 96), names)
    assert source.digest != both.digest


def _files(folder, count=20):
    """A sequence of image files, each with a bright square."""
    frames = []
    for index in range(count):
        image = np.random.default_rng(index).integers(0, 60, (64, 96, 3), dtype=np.uint8)
        image[20:44, 30:54] = 255
        cv2.imwrite(str(folder / f'{index}.jpg'), image)
        load = partial(load_image, folder / f'{index}.jpg')
        objects = known([30, 20, 54, 44, 0, 0])
        frames.append(Frame(f'{index}.jpg', index, load, ground_truth=objects))
    return Sequence('files', ('square',), tuple(frames))


def test_corrupt_images_are_named_once_and_left_out_of_the_draw(tmp_path):
    source = SampleSource([_files(tmp_path)], [1.0], (64, 96), held_bytes=0)
    for index in (3, 7):
        (tmp_path / f'{index}.jpg').write_bytes(b'\xff\xd8 no image')
    with pytest.warns(UserWarning, match='image . ?.*jpg is left out') as told:
        samples = _drawn(source, 80)
    assert source.unreadable == {3, 7} and len(told) == 2
    assert len(samples) == 80 and sum(len(sample.ground_truth) for sample in samples) > 40


def test_an_image_that_is_too_long_to_be_warped_is_left_out(tmp_path):
    files = _files(tmp_path)
    cv2.imwrite(str(tmp_path / '3.jpg'), grey(3, 32_767))
    source = SampleSource([files], [1.0], (64, 96))
    with pytest.warns(UserWarning, match='3.jpg is left out, .* it is 32767 x 3 px.*32767'):
        _drawn(source, 80)
    cv2.imwrite(str(tmp_path / '3.jpg'), grey(3, 32_766))
    source = SampleSource([files], [1.0], (64, 96))
    assert {sample.image_bgr.shape for sample in _drawn(source, 80)} == {(64, 96, 3)}


@pytest.mark.filterwarnings('ignore:image')
def test_what_is_drawn_beside_corrupt_images_depends_on_the_generator_alone(tmp_path):
    """Whether an image is known to be corrupt already or found so now, another is drawn in its place, the same."""
    sources = [SampleSource([_files(tmp_path)], [1.0], (64, 96)) for _ in range(2)]
    for index in (3, 7):
        (tmp_path / f'{index}.jpg').write_bytes(b'')
    for seed in range(40):
        sources[0].draw(np.random.default_rng(1000 + seed))
    for one, other in zip(*(_drawn(source, 20) for source in sources)):
        np.testing.assert_array_equal(one.image_bgr, other.image_bgr)


@pytest.mark.filterwarnings('ignore:image')
def test_a_data_set_that_vanishes_ends_the_draw_with_its_name(tmp_path, shapes):
    source = SampleSource([_files(tmp_path), shapes], [0.5, 0.5], (64, 96))
    for file in tmp_path.iterdir():
        file.unlink()
    words = '3 of 20 images of files cannot be read, the last: .*jpg cannot be read.*No such file'
    with pytest.raises(TrainingDataLost, match=words):
        _drawn(source, 200)


def test_the_only_image_of_a_sequence_that_is_corrupt_is_an_error_not_a_loop(tmp_path):
    source = SampleSource([_files(tmp_path, 1)], [1.0], (64, 96))
    (tmp_path / '0.jpg').write_bytes(b'')
    with pytest.raises(TrainingDataLost, match='1 of 1 images of files cannot be read'):
        source.draw(np.random.default_rng(0))


def test_images_without_any_object_are_drawn():
    source = _source(('square',), *[(noise(64, 96, seed), []) for seed in range(4)])
    samples = _drawn(source, 10, crop=(32, 32))
    assert all(len(sample.ground_truth) == 0 for sample in samples)
