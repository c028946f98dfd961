from dataclasses import replace
from functools import partial

import cv2
import numpy as np
import pytest

from deadline_perception.core.images.image_file import load_image
from deadline_perception.core.records import Frame, GroundTruth, Sequence
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


def _bright_square(without=()):
    """A source of one image of 128 x 96 px, black but for one object."""
    image = np.zeros((96, 128, 3), np.uint8)
    image[30:50, 60:90] = 255
    ground_truth = GroundTruth(np.float32([[60, 30, 90, 50]]), np.array([0]), np.array([False]))
    frame = Frame('square', 0, lambda: image, ground_truth=ground_truth)
    return SampleSource(
        [Sequence('square', ('square',), (frame,))], [1.0], (96, 128), without=without
    )


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
    image = cv2.GaussianBlur(
        np.random.default_rng(0).integers(0, 256, (96, 144, 3), dtype=np.uint8), (0, 0), 2.0
    )
    ground_truth = GroundTruth(np.zeros((0, 4)), np.zeros(0), np.zeros(0))
    frame = Frame('0', 0, lambda: image, ground_truth=ground_truth)
    source = SampleSource([Sequence('one', ('x',), (frame,))], [1.0], size)
    resized = cv2.resize(image, size[::-1], interpolation=cv2.INTER_LINEAR).astype(int)
    mirrored = set()
    for seed in range(8):
        view = source._view(np.random.default_rng(seed), size, (1.0, 1.0)).image_bgr.astype(int)
        errors = [np.abs(view - wanted)[1:-1, 1:-1].max() for wanted in (resized, resized[:, ::-1])]
        assert min(errors) <= 2 < max(errors)
        mirrored.add(int(np.argmin(errors)))
    assert mirrored == {0, 1}


def _marked(name, labels, place=(10, 10, 30, 30)):
    ground_truth = GroundTruth(
        np.float32([place] * len(labels)), np.array(labels), np.zeros(len(labels), bool)
    )
    return Frame(
        name, int(name), lambda: np.zeros((64, 96, 3), np.uint8), ground_truth=ground_truth
    )


def test_images_with_rare_classes_are_drawn_more_often_within_the_share_of_their_sequence():
    frames = (_marked('0', [0, 1]), _marked('1', [0]), _marked('2', [0]), _marked('3', []))
    # Class 0 is in more than half of the images, class 1 in a quarter: sqrt(0.5 / 0.25).
    assert _repeat_factors([frame.ground_truth for frame in frames], 2) == pytest.approx(
        [2**0.5, 1, 1, 1]
    )
    many, few = (
        Sequence(name, ('common', 'rare'), part)
        for name, part in (('many', frames), ('few', frames[1:3]))
    )
    chances = SampleSource([many, few], [0.6, 0.2], (64, 96))._probabilities
    assert chances[:4] == pytest.approx(0.75 * np.array([2**0.5, 1, 1, 1]) / (3 + 2**0.5))
    assert chances[4:] == pytest.approx([0.125, 0.125])


def test_windows_are_cut_around_rare_objects_more_often():
    """Sixteen common objects and a rare one: of the two in one image the rare one is chosen four times out of five."""
    ground_truth = GroundTruth(
        np.float32([[10, 20, 30, 40], [226, 20, 246, 40]]), np.array([0, 1]), np.zeros(2, bool)
    )
    both = Frame('0', 0, lambda: np.zeros((64, 256, 3), np.uint8), ground_truth=ground_truth)
    others = tuple(_marked(f'{index}', [0]) for index in range(1, 16))
    source = SampleSource([Sequence('both', ('common', 'rare'), (both, *others))], [1.0], (64, 256))
    source._probabilities = np.eye(16)[0]
    windows = [
        source.draw(np.random.default_rng(seed), crop=(64, 64)).ground_truth for seed in range(300)
    ]
    common, rare = (
        sum(bool((window.labels[~window.crowd] == label).any()) for window in windows)
        for label in (0, 1)
    )
    assert rare > 150 and 2 * common < rare


def test_some_views_show_an_image_of_any_aspect_as_a_frame_is_stretched():
    """A square image at an input twice as wide: its square object is twice as wide as high, whole and uncut."""
    known = GroundTruth(np.float32([[16, 16, 48, 48]]), np.array([0]), np.array([False]))
    frame = Frame('0', 0, lambda: np.zeros((64, 64, 3), np.uint8), ground_truth=known)
    source = SampleSource([Sequence('one', ('x',), (frame,))], [1.0], (64, 128), without=['mosaic'])
    boxes = [
        source.draw(np.random.default_rng(seed)).ground_truth.boxes_xyxy_px[0] for seed in range(60)
    ]
    whole = sum(np.allclose(box, [32, 16, 96, 48], atol=0.1) for box in boxes)
    assert 5 < whole < 40


def test_of_a_cut_object_a_part_that_fills_the_view_is_known_and_a_sliver_is_not():
    known = GroundTruth(
        np.float32([[-200, 0, 20, 90], [100, 10, 200, 30]]), np.array([0, 0]), np.zeros(2, bool)
    )
    assert _move(known, np.eye(2, 3), (96, 128)).crowd.tolist() == [False, True]


def test_objects_that_become_small_are_crowd():
    """Under 64 px2 they are neither right nor wrong, whatever they were before."""
    ground_truth = GroundTruth(
        np.float32([[10, 10, 30, 20], [10, 40, 50, 48]]), np.array([0, 1]), np.array([False, False])
    )
    for scale, crowd in ((1.0, [False, False]), (0.55, [True, False]), (0.4, [True, True])):
        matrix = np.array([[scale, 0, 0], [0, scale, 0]])
        assert _move(ground_truth, matrix, (96, 128)).crowd.tolist() == crowd


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
    bare = Sequence(
        'bare', shapes.class_names, (Frame('0', 0, lambda: np.zeros((4, 4, 3), np.uint8)),)
    )
    with pytest.raises(ValueError, match="'bare' has no annotated frame"):
        SampleSource([bare], [1.0], (64, 96))
    with pytest.raises(ValueError, match='shapes names square, bar, the network learns cat'):
        SampleSource([shapes], [1.0], (64, 96), ('cat',))


def test_samples_say_which_classes_their_source_names(shapes):
    """Labels follow the names; a mosaic is made of images of sources that name the same classes."""
    known = [
        GroundTruth(frame.ground_truth.boxes_xyxy_px[1:], [0], [False]) for frame in shapes.frames
    ]
    frames = (replace(one, ground_truth=marked) for one, marked in zip(shapes.frames, known))
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
        known = GroundTruth(np.float32([[30, 20, 54, 44]]), np.array([0]), np.array([False]))
        frames.append(
            Frame(
                f'{index}.jpg',
                index,
                partial(load_image, folder / f'{index}.jpg'),
                ground_truth=known,
            )
        )
    return Sequence('files', ('square',), tuple(frames))


def test_corrupt_images_are_named_once_and_left_out_of_the_draw(tmp_path):
    source = SampleSource([_files(tmp_path)], [1.0], (64, 96), held_bytes=0)
    for index in (3, 7):
        (tmp_path / f'{index}.jpg').write_bytes(b'\xff\xd8 no image')
    with pytest.warns(UserWarning, match='image . ?.*jpg is left out') as told:
        samples = [source.draw(np.random.default_rng(seed)) for seed in range(80)]
    assert source.unreadable == {3, 7} and len(told) == 2
    assert len(samples) == 80 and sum(len(sample.ground_truth) for sample in samples) > 40


def test_an_image_that_is_too_long_to_be_warped_is_left_out(tmp_path):
    files = _files(tmp_path)
    cv2.imwrite(str(tmp_path / '3.jpg'), np.zeros((3, 32_767, 3), np.uint8))
    source = SampleSource([files], [1.0], (64, 96))
    with pytest.warns(UserWarning, match='3.jpg is left out, .* it is 32767 x 3 px.*32767'):
        for seed in range(80):
            source.draw(np.random.default_rng(seed))
    cv2.imwrite(str(tmp_path / '3.jpg'), np.zeros((3, 32_766, 3), np.uint8))
    source = SampleSource([files], [1.0], (64, 96))
    assert all(
        source.draw(np.random.default_rng(seed)).image_bgr.shape == (64, 96, 3)
        for seed in range(80)
    )


@pytest.mark.filterwarnings('ignore:image')
def test_what_is_drawn_beside_corrupt_images_depends_on_the_generator_alone(tmp_path):
    """Whether an image is known to be corrupt already or found so now, another is drawn in its place, the same."""
    sources = [SampleSource([_files(tmp_path)], [1.0], (64, 96)) for _ in range(2)]
    for index in (3, 7):
        (tmp_path / f'{index}.jpg').write_bytes(b'')
    for seed in range(40):
        sources[0].draw(np.random.default_rng(1000 + seed))
    for seed in range(20):
        one, other = (source.draw(np.random.default_rng(seed)) for source in sources)
        np.testing.assert_array_equal(one.image_bgr, other.image_bgr)


@pytest.mark.filterwarnings('ignore:image')
def test_a_data_set_that_vanishes_ends_the_draw_with_its_name(tmp_path, shapes):
    gone = _files(tmp_path)
    source = SampleSource(
        [gone, replace(shapes, class_names=('square', 'bar'))], [0.5, 0.5], (64, 96)
    )
    for file in tmp_path.iterdir():
        file.unlink()
    words = '3 of 20 images of files cannot be read, the last: .*jpg cannot be read.*No such file'
    with pytest.raises(TrainingDataLost, match=words):
        for seed in range(200):
            source.draw(np.random.default_rng(seed))


def test_the_only_image_of_a_sequence_that_is_corrupt_is_an_error_not_a_loop(tmp_path):
    source = SampleSource([_files(tmp_path, 1)], [1.0], (64, 96))
    (tmp_path / '0.jpg').write_bytes(b'')
    with pytest.raises(TrainingDataLost, match='1 of 1 images of files cannot be read'):
        source.draw(np.random.default_rng(0))


def test_images_without_any_object_are_drawn(tmp_path):
    files = _files(tmp_path, 4)
    nothing = GroundTruth(np.zeros((0, 4)), np.zeros(0), np.zeros(0, bool))
    empty = replace(
        files, frames=tuple(replace(frame, ground_truth=nothing) for frame in files.frames)
    )
    source = SampleSource([empty], [1.0], (64, 96))
    samples = [source.draw(np.random.default_rng(seed), crop=(32, 32)) for seed in range(10)]
    assert all(len(sample.ground_truth) == 0 for sample in samples)
