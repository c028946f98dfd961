"""Training images: drawn class-balanced from sequences, and changed at random without losing their boxes."""

from __future__ import annotations

import hashlib
import json
import math
import threading
import warnings
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from deadline_perception.core.errors import DeadlinePerceptionError, printable
from deadline_perception.core.opencv import cv2
from deadline_perception.extras.data.class_names import with_class_names
from deadline_perception.extras.data.records import Frame, GroundTruth, Sequence
from deadline_perception.extras.rendered_drive.painter import CROWD_AREA_PX

_HELD_BYTES = 4e9
_MIN_VISIBLE_SHARE, _LARGE_SHARE = (
    0.3,
    0.05,
)  # of an object, or else of the view, for a cut object to be known
_MOSAIC_SHARE = 0.15
# Of the size at which the image fills the input: near and far, so that the larger and smaller scales of a path see in
# training what they see in a frame.
_SCALES = (0.5, 2.2)
_WHOLE_SHARE, _BY_SIDE_SHARE = (
    0.3,
    0.35,
)  # of the views: the image as a frame, and objects of any size
_SIDES = (0.015, 1.0)  # of an object over the view's, distributed evenly over their logarithm
_LEAST_ZOOM, _MOST_MAGNIFIED = (
    0.35,
    4.0,
)  # below, objects are specks; above, an image's pixels are blurs
_MOSAIC_SCALES = (0.6, 2.4)
_NIGHT_SHARE, _JPEG_SHARE = 0.1, 0.25
_CROP_ON_OBJECT_SHARE = 0.8
_MOST_SIDE_PX = 32_767  # of what OpenCV warps
_MOST_UNREADABLE = 0.1  # of a sequence's images, from which on the data are taken to be gone
_NAMED = 10  # images that are named as they cannot be read

AUGMENTATIONS = {
    'mosaic': 'four images in one',
    'scale': 'near and far',
    'mirror': 'left for right',
    'colour': 'hue, brightness, contrast and night',
    'quality': 'blur, noise and JPEG',
}


class TrainingDataLost(DeadlinePerceptionError):
    """Images that were there as the training began can no longer be read."""


@dataclass(frozen=True, eq=False)
class Sample:
    """One training image.

    Attributes:
        image_bgr: uint8 `[h, w, 3]`.
        ground_truth: its objects, boxes in its px.
        named: bool `[C]`, False for a class that the image's source does not name, whose objects may be there unmarked.
    """

    image_bgr: np.ndarray
    ground_truth: GroundTruth
    named: np.ndarray


class SampleSource:
    """Draws samples of one size from annotated sequences.

    Images are read when they are first drawn, and held while memory is left for them; others are read every time.
    Those with rare classes are drawn more often: with the square root of the inverse share of the images that hold the
    class (repeat factor sampling, Gupta et al. 2019, section 3).

    An image that cannot be read is named in a warning and not drawn: another is, so that what is drawn depends on the
    generator and the files alone.

    Args:
        sequences: annotated sequences; boxes of classes that are not learnt are dropped, with a warning.
        shares: share of the draws that each sequence gets; they are normalised.
        size: height and width in px of the samples where `draw` is given no other.
        class_names: the classes to learn, at least one of each sequence's; None for all that they name.
        without: `AUGMENTATIONS` to leave out.
        held_bytes: memory for images that are held.

    Attributes:
        digest: identifies what is drawn: names and objects of the images, to a tenth of a pixel, and the shares.
        unreadable: indices of the images that could not be read so far.

    Raises:
        ValueError: a sequence has no annotation, or no class to learn, or an augmentation is unknown.
    """

    def __init__(
        self,
        sequences: list[Sequence],
        shares: list[float],
        size: tuple[int, int],
        class_names: tuple[str, ...] | None = None,
        without: Collection[str] = (),
        held_bytes: float = _HELD_BYTES,
    ) -> None:
        if not AUGMENTATIONS.keys() >= set(without):
            raise ValueError(
                f'augmentations to leave out are {", ".join(without)}, expected some of '
                f'{", ".join(AUGMENTATIONS)}'
            )
        self.size = size
        self._without = frozenset(without)
        self.class_names = class_names or all_class_names(sequences)
        named = np.array(
            [[name in sequence.class_names for name in self.class_names] for sequence in sequences]
        )
        self._frames: list[Frame] = []
        self.unreadable: set[int] = set()
        self._unreadable_lock = threading.Lock()
        self._held: dict[int, np.ndarray] = {}
        self._free_bytes = held_bytes
        weights: list[np.ndarray] = []
        for sequence, share, names in zip(sequences, shares, named):
            if not names.any():
                raise ValueError(
                    f'{sequence.name} names {", ".join(sequence.class_names)}, the network learns '
                    f'{", ".join(self.class_names)}; expected one class in common'
                )
            sequence = with_class_names(sequence, self.class_names)
            frames = [frame for frame in sequence.frames if frame.ground_truth is not None]
            if not frames:
                raise ValueError(
                    f'sequence {sequence.name!r} has no annotated frame, expected some'
                )
            self._frames += frames
            repeat = _repeat_factors(
                [frame.ground_truth for frame in frames], len(self.class_names)
            )
            weights.append(share * repeat / repeat.sum())
        lengths = [len(of_one) for of_one in weights]
        self._named = named.repeat(lengths, 0)
        self._sequence = np.arange(len(lengths)).repeat(lengths)
        self._names = [sequence.name for sequence in sequences]
        joined = np.concatenate(weights)
        self._probabilities = joined / joined.sum()
        ground_truths = [frame.ground_truth for frame in self._frames]
        counts = np.bincount(
            np.concatenate([known.labels[~known.crowd] for known in ground_truths]),
            minlength=len(self.class_names),
        )
        self._rarity = 1.0 / np.sqrt(
            np.maximum(counts, 1)
        )  # how often a class's objects draw a window to themselves
        self.digest = _digest(
            self._frames,
            [*self.class_names, *shares, *named.astype(int).tolist(), *sorted(self._without)],
        )

    def __len__(self) -> int:
        return len(self._frames)

    def draw(
        self,
        generator: np.random.Generator,
        size: tuple[int, int] | None = None,
        crop: tuple[int, int] | None = None,
    ) -> Sample:
        """One random, randomly changed sample.

        Args:
            generator: decides everything.
            size: height and width in px that an image is brought to, None for the source's.
            crop: height and width in px of a window to draw instead, mostly around an object; objects in it are as
                large as they are in a sample of full size, so that it costs less time and keeps what is to be learnt.

        Raises:
            TrainingDataLost: more than a tenth of a sequence's images cannot be read.
        """
        size = size or self.size
        if generator.random() < _MOSAIC_SHARE and 'mosaic' not in self._without:
            sample = self._mosaic(generator, crop or size)
        elif crop is not None:
            sample = self._view(generator, crop, _SCALES, whole=size)
        else:
            sample = self._view(generator, size, _SCALES)
        return replace(sample, image_bgr=_photometric(sample.image_bgr, generator, self._without))

    def _image(self, index: int) -> np.ndarray | None:
        """uint8 `[h, w, 3]`, None where it cannot be read; several threads may ask at once, and at worst read an image
        twice."""
        image = self._held.get(index)
        if image is None and index not in self.unreadable:
            try:
                image = self._frames[index].load_bgr()
                if max(image.shape) >= _MOST_SIDE_PX:
                    raise ValueError(
                        f'it is {image.shape[1]} x {image.shape[0]} px, expected less than '
                        f'{_MOST_SIDE_PX} px a side'
                    )
            except (ValueError, OSError, DeadlinePerceptionError, cv2.error) as error:
                self._leave_out(index, error)
                return None
            if image.nbytes <= self._free_bytes:
                self._free_bytes -= image.nbytes
                self._held[index] = image
        return image

    def _leave_out(self, index: int, error: Exception) -> None:
        """Notes an image that cannot be read; the data are lost when there are too many."""
        with self._unreadable_lock:
            if index in self.unreadable:
                return
            self.unreadable.add(index)
            count = len(self.unreadable)
            of_sequence = self._sequence == self._sequence[index]
            lost, whole = int(of_sequence[list(self.unreadable)].sum()), int(of_sequence.sum())
        reason = printable(error)
        if lost == whole or lost > max(1.0, _MOST_UNREADABLE * whole):
            raise TrainingDataLost(
                f'{lost} of {whole} images of {self._names[self._sequence[index]]} cannot be read, '
                f'the last: {reason}; expected the data to stay where they are while training. The '
                f'same command goes on once they are back'
            ) from error
        if count <= _NAMED:
            warnings.warn(
                f'image {self._frames[index].name} is left out, {count} so far: {reason}',
                stacklevel=2,
            )

    def _view(
        self,
        generator: np.random.Generator,
        size: tuple[int, int],
        scales: tuple[float, float],
        whole: tuple[int, int] | None = None,
        beside: Sample | None = None,
    ) -> Sample:
        """A randomly scaled, shifted and mirrored view of one image; what lies outside it is grey.

        With `whole`, the view is a window into a view of that size; with `beside`, of an image whose source names the
        same classes as that of another sample.
        """
        chances = self._probabilities
        if beside is not None:
            chances = chances * (self._named == beside.named).all(1)
            chances = chances / chances.sum()
        image = None
        while image is None:
            index = int(generator.choice(len(self._frames), p=chances))
            image = self._image(index)
        ground_truth = self._frames[index].ground_truth
        height, width = size
        objects, labels = (
            ground_truth.boxes_xyxy_px[~ground_truth.crowd],
            ground_truth.labels[~ground_truth.crowd],
        )
        wanted = None
        if len(objects):
            chances = self._rarity[labels] / self._rarity[labels].sum()
            wanted = objects[generator.choice(len(objects), p=chances)]
        if 'scale' in self._without:
            scales = (1.0, 1.0)
        by_side = generator.random() < _BY_SIDE_SHARE and wanted is not None and whole is None
        fitted = min(have / side for have, side in zip(whole or size, image.shape))
        scale = _view_scale(generator, image.shape[:2], fitted, scales, wanted if by_side else None)
        spare_x, spare_y = width - image.shape[1] * scale, height - image.shape[0] * scale
        shift_x, shift_y = (
            generator.uniform(min(spare_x, 0), max(spare_x, 0)),
            generator.uniform(min(spare_y, 0), max(spare_y, 0)),
        )
        if (
            wanted is not None
            and (by_side or whole is not None)
            and generator.random() < _CROP_ON_OBJECT_SHARE
        ):
            left, top, right, bottom = wanted * scale
            shift_x = np.clip(
                width * generator.uniform(0.2, 0.8) - (left + right) / 2,
                min(spare_x, 0),
                max(spare_x, 0),
            )
            shift_y = np.clip(
                height * generator.uniform(0.2, 0.8) - (top + bottom) / 2,
                min(spare_y, 0),
                max(spare_y, 0),
            )
        matrix = np.array([[scale, 0, shift_x], [0, scale, shift_y]], dtype=np.float64)
        if generator.random() < 0.5 and 'mirror' not in self._without:
            matrix = np.array([[-scale, 0, width - shift_x], [0, scale, shift_y]])
        # Boxes are measured from pixels' edges, images from their centres.
        centred = matrix.copy()
        centred[:, 2] += 0.5 * (matrix[:, 0] + matrix[:, 1]) - 0.5
        view = cv2.warpAffine(
            image, centred, (width, height), flags=cv2.INTER_LINEAR, borderValue=(114, 114, 114)
        )
        return Sample(view, _move(ground_truth, matrix, size), self._named[index])

    def _mosaic(self, generator: np.random.Generator, size: tuple[int, int]) -> Sample:
        """Four smaller views in one image around a random centre, of sources that name the same classes."""
        height, width = size
        cy, cx = (
            int(height * generator.uniform(0.35, 0.65)),
            int(width * generator.uniform(0.35, 0.65)),
        )
        image = np.empty((height, width, 3), np.uint8)
        views: list[Sample] = []
        moved = []
        for y0, y1, x0, x1 in (
            (0, cy, 0, cx),
            (0, cy, cx, width),
            (cy, height, 0, cx),
            (cy, height, cx, width),
        ):
            view = self._view(
                generator, (y1 - y0, x1 - x0), _MOSAIC_SCALES, beside=views[0] if views else None
            )
            image[y0:y1, x0:x1] = view.image_bgr
            views.append(view)
            moved.append(view.ground_truth.boxes_xyxy_px + np.float32([x0, y0, x0, y0]))
        known = GroundTruth(
            np.concatenate(moved),
            np.concatenate([view.ground_truth.labels for view in views]),
            np.concatenate([view.ground_truth.crowd for view in views]),
        )
        return Sample(image, known, views[0].named)


def all_class_names(sequences: list[Sequence]) -> tuple[str, ...]:
    """Every class that a sequence names, once, in the order of the sequences."""
    return tuple(dict.fromkeys(name for sequence in sequences for name in sequence.class_names))


def _digest(frames: list[Frame], facts: list[str | float | list[int]]) -> str:
    digest = hashlib.sha256(json.dumps(facts).encode())
    for frame in frames:
        ground_truth = frame.ground_truth
        # Rounded, because a drive's boxes can differ in their last bits between machines.
        boxes = np.rint(ground_truth.boxes_xyxy_px * 10).astype(np.int32)
        for part in (
            frame.name.encode(),
            boxes.tobytes(),
            ground_truth.labels.tobytes(),
            ground_truth.crowd.tobytes(),
        ):
            digest.update(part)
    return digest.hexdigest()[:16]


def _repeat_factors(ground_truths: list[GroundTruth], classes: int) -> np.ndarray:
    """How often each image is drawn relative to others, >= 1."""
    present = np.zeros((len(ground_truths), classes), bool)
    for row, ground_truth in zip(present, ground_truths):
        row[ground_truth.labels[~ground_truth.crowd]] = True
    share = present.mean(0)
    factor = np.sqrt(0.5 / np.clip(share, 0.02, 0.5))
    return np.where(present, factor, 1.0).max(1)


def _view_scale(
    generator: np.random.Generator,
    image: tuple[int, int],
    fitted: float,
    scales: tuple[float, float],
    wanted_xyxy_px: np.ndarray | None,
) -> float:
    """Random factor from px of an image to px of a view.

    Some views show the whole image as a frame does; in the others it has another size.

    Args:
        generator: draws.
        image: height and width in px.
        fitted: factor at which the image just fits into the input.
        scales: what else is drawn from, over that; (1, 1) for that alone.
        wanted_xyxy_px: an object that gets any size from a speck to all of the view instead.
    """
    if scales == (1.0, 1.0) or (wanted_xyxy_px is None and generator.random() < _WHOLE_SHARE):
        return fitted
    if wanted_xyxy_px is None:
        return float(np.exp(generator.uniform(*np.log(scales)))) * fitted
    left, top, right, bottom = wanted_xyxy_px
    side = math.sqrt(max(1.0, (right - left) * (bottom - top)) / math.prod(image))
    zoom = float(np.exp(generator.uniform(*np.log(_SIDES)))) / side
    return max(_LEAST_ZOOM, min(zoom, _MOST_MAGNIFIED / fitted)) * fitted


def _move(known: GroundTruth, matrix: np.ndarray, size: tuple[int, int]) -> GroundTruth:
    """Boxes under an axis-aligned affine map, cut to the view; objects mostly cut off, or small, become crowd."""
    height, width = size
    if len(known) == 0:
        return known
    corners = known.boxes_xyxy_px * np.float32([matrix[0, 0], matrix[1, 1]] * 2) + np.float32(
        matrix[:, 2].tolist() * 2
    )
    low, high = (
        np.minimum(corners[:, :2], corners[:, 2:]),
        np.maximum(corners[:, :2], corners[:, 2:]),
    )
    corners = np.concatenate((low, high), 1)
    cut = corners.clip(0, np.float32([width, height, width, height]))
    area = (corners[:, 2:] - corners[:, :2]).prod(1)
    visible = (cut[:, 2:] - cut[:, :2]).prod(1) / np.maximum(area, 1e-6)
    solid = ((cut[:, 2:] - cut[:, :2]) >= 1.0).all(1)
    small = (cut[:, 2:] - cut[:, :2]).prod(1) < CROWD_AREA_PX
    hidden = (visible < _MIN_VISIBLE_SHARE) & (
        (cut[:, 2:] - cut[:, :2]).prod(1) < _LARGE_SHARE * height * width
    )
    crowd = known.crowd | hidden | small
    return GroundTruth(cut[solid], known.labels[solid], crowd[solid])


def _photometric(
    image: np.ndarray, generator: np.random.Generator, without: Collection[str] = ()
) -> np.ndarray:
    """Random brightness, contrast, hue, saturation, night, noise, blur and JPEG."""
    if 'colour' not in without:
        image = _coloured(image, generator)
    return image if 'quality' in without else _worsened(image, generator)


def _coloured(image: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    if generator.random() < 0.8:
        hsv = cv2.cvtColor(image, cv2.COLOR_BGR2HSV).astype(np.int16)
        hsv[..., 0] = (hsv[..., 0] + generator.integers(-8, 9)) % 180
        hsv[..., 1] = np.clip(hsv[..., 1] * generator.uniform(0.5, 1.5), 0, 255)
        image = cv2.cvtColor(hsv.astype(np.uint8), cv2.COLOR_HSV2BGR)
        tones = np.arange(256) * generator.uniform(0.7, 1.35) + generator.uniform(-25, 35)
        image = cv2.LUT(image, np.clip(tones, 0, 255).astype(np.uint8))
    if generator.random() < _NIGHT_SHARE:
        dark = (
            255
            * (np.arange(256) / 255) ** generator.uniform(1.3, 2.6)
            * generator.uniform(0.4, 0.9)
        )
        image = cv2.LUT(image, dark.astype(np.uint8))
    return image


def _worsened(image: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    kind = generator.random()
    if kind < 0.1:
        image = cv2.GaussianBlur(image, (0, 0), generator.uniform(0.4, 1.4))
    elif kind < 0.2:
        noise = generator.normal(0, generator.uniform(2, 12), image.shape)
        image = np.clip(image + noise, 0, 255).astype(np.uint8)
    if generator.random() < _JPEG_SHARE:
        quality = int(generator.integers(25, 90))
        image = cv2.imdecode(
            cv2.imencode('.jpg', image, [cv2.IMWRITE_JPEG_QUALITY, quality])[1], cv2.IMREAD_COLOR
        )
    return image
