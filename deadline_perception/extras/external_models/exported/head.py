"""How the outputs of a detector are read: the record that every family of heads makes, and the geometry they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

CORNERS, CENTRES, ROWS_FIRST = 'corners', 'centres', 'rows-first'
PX, FRACTION = 'px', 'fraction'
PROBABILITY, SIGMOID, SOFTMAX = 'probability', 'sigmoid', 'softmax'
# How heads mostly take images: resize, order of channels and range, see `pixels`.
PLAIN = ('stretch', 'rgb', '0 to 1')
ULTRALYTICS = ('letterbox', 'rgb', '0 to 1')
INTEL = ('stretch', 'bgr', '0 to 255')
MIN_SCORE = 0.01  # of what a head passes on; the node's own limit lies above
MAX_CANDIDATES = 1000  # of a head whose boxes overlap
_NOTHING_WINS = (
    0.8  # probability of no object in the median box, of a column that was trained for it
)


@dataclass(frozen=True)
class Output:
    """One output of a file.

    Attributes:
        name: in the file.
        shape: sizes, None where the file leaves one open.
        is_integer: its values are whole numbers.
    """

    name: str
    shape: tuple[int | None, ...]
    is_integer: bool = False

    def __str__(self) -> str:
        return f'{self.name[:60]} [{", ".join("?" if size is None else str(size) for size in self.shape)}]'

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """Its shape without leading dimensions of 1 or of an open batch, at least the last two where it has them."""
        shape = self.shape
        while len(shape) > 2 and shape[0] in (1, None):
            shape = shape[1:]
        return shape


@dataclass(frozen=True, eq=False)
class Objects:
    """What a head says of one image.

    Attributes:
        boxes: float32 `[N, 4]`, corners in px of the input.
        scores: float32 `[N]`.
        labels: int64 `[N]`, as the model counts.
    """

    boxes: np.ndarray
    scores: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True, eq=False)
class Head:
    """One way to read the outputs of a file.

    Attributes:
        name: family and conventions, as it is stated in set.yaml: `boxes corners fraction`.
        labels: how many labels it can give; None where the outputs do not say.
        decode: from all outputs of one image, in the order of the file, to objects.
        overlapping: an object has several boxes, which non-maximum suppression has to thin out.
        scores_at: outputs whose last values are the scores of classes; empty where no form of scores is to be recognised.
        scores: form of those.
        usual: how such heads mostly take images.
        nothing_at: column of those scores that wins where there is no object; None without.
    """

    name: str
    labels: int | None
    decode: Callable[[Sequence[np.ndarray]], Objects]
    overlapping: bool = False
    scores_at: tuple[int, ...] = ()
    scores: str = PROBABILITY
    usual: tuple[str, str, str] = PLAIN
    nothing_at: int | None = None

    def fits(self, values: Sequence[np.ndarray]) -> bool:
        """Whether the outputs of an image have scores of this form: probabilities lie in [0, 1], others do not all, and
        most boxes hold nothing."""
        given = [values[place] for place in self.scores_at]
        if not given:
            return True
        in_range = all(part.min() >= -1e-3 and part.max() <= 1.0 + 1e-3 for part in given)
        if in_range != (self.scores == PROBABILITY):
            return False
        if self.nothing_at is None:
            return True
        nothing = [to_probabilities(part, self.scores)[..., self.nothing_at] for part in given]
        return float(np.median(np.concatenate([part.ravel() for part in nothing]))) > _NOTHING_WINS


def to_corners(boxes: np.ndarray, form: str, unit: str, input_size: tuple[int, int]) -> np.ndarray:
    """Boxes `[N, 4]` of any form -> corners in px of the input.

    Args:
        boxes: as the form says: left, top, right, bottom; centre, width, height; or top, left, bottom, right.
        form: CORNERS, CENTRES or ROWS_FIRST.
        unit: PX of the input, or FRACTION of its sides.
        input_size: height and width in px.
    """
    boxes = boxes.astype(np.float32, copy=False)
    if form == CENTRES:
        half = boxes[:, 2:] / 2
        boxes = np.concatenate((boxes[:, :2] - half, boxes[:, :2] + half), 1)
    elif form == ROWS_FIRST:
        boxes = boxes[:, [1, 0, 3, 2]]
    if unit == FRACTION:
        height, width = input_size
        boxes = boxes * np.float32([width, height, width, height])
    return boxes


def to_probabilities(values: np.ndarray, form: str) -> np.ndarray:
    """Scores `[..., C]` of any form as probabilities."""
    if form == SIGMOID:
        return sigmoid(values)
    if form == SOFTMAX:
        return softmax(values)
    return values


def sigmoid(values: np.ndarray) -> np.ndarray:
    """The logistic function; without overflow where values are far below 0."""
    return 0.5 * (1.0 + np.tanh(0.5 * values))


def softmax(values: np.ndarray) -> np.ndarray:
    """Along the last axis."""
    powers = np.exp(values - values.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def best_classes(
    scores: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The candidates among boxes that have a score per class.

    Args:
        scores: probabilities `[N, C]`.
        weights: probability `[N]` of being an object at all, which scores are multiplied by.

    Returns:
        Indices of at most `MAX_CANDIDATES` boxes whose best class reaches `MIN_SCORE`, their scores, their labels.
    """
    labels = scores.argmax(1)
    best = scores[np.arange(len(scores)), labels]
    if weights is not None:
        best = best * weights
    kept = np.flatnonzero(best >= MIN_SCORE)
    if len(kept) > MAX_CANDIDATES:
        kept = kept[np.argpartition(-best[kept], MAX_CANDIDATES)[:MAX_CANDIDATES]]
    return kept, best[kept], labels[kept]


def cells(input_size: tuple[int, int], stride: int) -> tuple[int, int]:
    """Rows and columns of the feature map of a stride."""
    return -(-input_size[0] // stride), -(-input_size[1] // stride)


def cell_corners(
    input_size: tuple[int, int], strides: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Left upper corners `[N, 2]` (x, y) in cells, and strides `[N]`, of all cells, row by row, stride after stride."""
    places, sizes = [], []
    for stride in strides:
        rows, columns = cells(input_size, stride)
        y, x = np.mgrid[:rows, :columns]
        places.append(np.stack((x.ravel(), y.ravel()), 1))
        sizes.append(np.full(rows * columns, stride))
    return np.concatenate(places).astype(np.float32), np.concatenate(sizes).astype(np.float32)
