"""Segments that choose boxes and cut out regions, on arrays: what their tensor forms beside the layers give, without
PyTorch and, on the few values that a CPU has to choose from, sooner.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module, machinery, util
from types import ModuleType

import numpy as np

from deadline_perception.core.opencv import cv2
from deadline_perception.engines.eager import Arrays

BINS = 7  # of a region along each side
SAMPLES = 2  # positions per bin
HEAD_DELTA_WEIGHTS = (10.0, 10.0, 5.0, 5.0)
SCORE_THRESHOLD = 0.05
HEAD_NMS_IOU = 0.5
DETECTIONS_PER_IMAGE = 100
# Largest log scale that a decoded box may grow by; guards exp against wild outputs (a factor of 62.5).
MAX_LOG_SCALE = math.log(1000.0 / 16.0)


def anchors(
    size: tuple[int, int],
    stride: int,
    sizes_px: Sequence[float],
    ratios: Sequence[float],
) -> np.ndarray:
    """Anchors of one level, position by position.

    Args:
        size: height and width of the image in px.
        stride: px between neighbouring positions.
        sizes_px: square roots of the anchors' areas.
        ratios: height divided by width.

    Returns:
        float32 `[H / stride * W / stride * A, 4]`, A = sizes times ratios.
    """
    shapes = [(s / math.sqrt(r), s * math.sqrt(r)) for s in sizes_px for r in ratios]
    half = np.array([(-w / 2, -h / 2, w / 2, h / 2) for w, h in shapes], np.float32)
    ys, xs = ((np.arange(side // stride, dtype=np.float32) + 0.5) * stride for side in size)
    cy, cx = np.meshgrid(ys, xs, indexing='ij')
    return (np.stack((cx, cy, cx, cy), -1).reshape(-1, 1, 4) + half).reshape(-1, 4)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """The logistic function of each value."""
    with np.errstate(over='ignore'):  # of what is infinitely improbable
        return 1.0 / (1.0 + np.exp(-logits))


def best_first(scores: np.ndarray, most: int) -> np.ndarray:
    """Places of the largest of some scores `[N]`, at most so many, NaN before all."""
    count = len(scores)
    if most < count:
        chosen = np.argpartition(scores, count - most)[count - most :]
        return chosen[best_first(scores[chosen], most)]
    return count - 1 - np.argsort(scores[::-1], kind='stable')[::-1]


def nms(boxes: np.ndarray, most_iou: float) -> np.ndarray:
    """Places of those of boxes `[N, 4]`, the best first, that no better one overlaps by more than `most_iou`.

    All of them where one is NaN, which `Detections` refuses. Of boxes without an area at most one.
    """
    if np.isnan(boxes).any():
        return np.arange(len(boxes))
    corners_and_sides = boxes.astype(np.float64)
    corners_and_sides[:, 2:] -= corners_and_sides[:, :2]
    falling = np.arange(len(boxes), 0, -1, dtype=np.float32)
    # Arrays are taken, though OpenCV's types name sequences.
    found = cv2.dnn.NMSBoxes(corners_and_sides, falling, 0.0, most_iou)  # type: ignore[arg-type]
    return np.asarray(found, np.intp).reshape(-1)


def decode(
    deltas: np.ndarray, references: np.ndarray, weights: tuple[float, float, float, float]
) -> np.ndarray:
    """Deltas `[N, 4]` to references `[N, 4]` -> boxes `[N, 4]`, see `boxes.decode`."""
    sizes = references[:, 2:] - references[:, :2]
    shifts = deltas / np.array(weights, np.float32)
    centres = references[:, :2] + sizes * (shifts[:, :2] + 0.5)
    scales = np.minimum(shifts[:, 2:], MAX_LOG_SCALE)
    half = np.exp(scales) * (sizes / 2)
    return np.concatenate((centres - half, centres + half), 1)


def clip(boxes: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Boxes `[N, 4]` cut to an image of height and width `size` in px."""
    return np.clip(boxes, np.float32(0.0), np.array((*size[::-1], *size[::-1]), np.float32))


def padded(values: np.ndarray, count: int) -> np.ndarray:
    """So many rows: the first of some, zeros after the last."""
    rows = np.zeros((count, values.shape[1]), np.float32)
    rows[: len(values)] = values[:count]
    return rows


def detections(
    head: Arrays,
    boxes: np.ndarray,
    scores: np.ndarray | None,
    size: tuple[int, int],
) -> Arrays:
    """What a head, or without its values the first stage alone, found in regions, suppressed class by class.

    Args:
        head: class logits `[R, 1 + classes]`, of which 0 is background, and deltas `[R, 4]`, one box per region
            whatever its class; or nothing.
        boxes: of the regions `[R, 4]`, xyxy in px; one without an area gives nothing.
        scores: of the first stage `[R, classes]`, whose geometric mean with the head's counts; None: the head's alone.
        size: height and width in px that boxes are cut to.

    Returns:
        boxes `[D, 4]`, scores `[D]`, labels `[D]` from 0; at most 100, most certain first.
    """
    if head:
        logits, deltas = (part.astype(np.float32, copy=False) for part in head)
        boxes = clip(decode(deltas, boxes, HEAD_DELTA_WEIGHTS), size)
        powers = np.exp(logits - logits.max(1, keepdims=True))
        powers /= powers.sum(1, keepdims=True)
        own = powers[:, 1:]
        scores = own if scores is None else np.sqrt(scores * own)
    assert scores is not None
    return suppressed(boxes, scores.astype(np.float32, copy=False), size)


def suppressed(
    boxes: np.ndarray,
    scores: np.ndarray,
    size: tuple[int, int],
    least_score: float = SCORE_THRESHOLD,
) -> Arrays:
    """Of boxes `[R, 4]` with scores `[R, classes]` those that are left, as `detections` gives them."""
    # So that NaN is neither below the threshold nor without area: `Detections` refuses it, and no road looks empty.
    sides = boxes[:, 2:] - boxes[:, :2]
    is_out = (scores <= least_score) | (sides <= 0.5).any(1, keepdims=True)
    which, labels = (~is_out).nonzero()
    order = best_first(scores[which, labels], len(which))
    which = which[order]
    labels = labels[order]
    apart = labels * (2 * max(size))  # boxes of two classes never overlap
    moved = boxes[which] + apart.astype(np.float32)[:, None]
    kept = nms(moved, HEAD_NMS_IOU)[:DETECTIONS_PER_IMAGE]
    which = which[kept]
    labels = labels[kept]
    return boxes[which], scores[which, labels], labels


def region_features(
    rows: np.ndarray,
    shapes: tuple[tuple[int, int, int], ...],
    boxes: np.ndarray,
    strides: tuple[int, ...],
) -> np.ndarray:
    """As `heads.features_of_rows` of one image, each box on the level that suits its size."""
    sizes, starts, scales, steps = level_table(shapes, strides)
    box_levels = pyramid_levels(boxes, len(strides), strides[0])
    scale = scales[box_levels]
    size = sizes[box_levels]
    # Of x and y at once, [R, 2, 14]: neighbouring positions of each sample, and their weights.
    low = boxes[:, :2] * scale
    high = boxes[:, 2:] * scale
    at = (low - 0.5)[..., None] + (high - low)[..., None] * steps
    inside = (at >= -1.0) & (at <= size[..., None])
    last = (size - 1.0)[..., None]
    # Also NaN becomes 0, so that no index is wild.
    at = np.minimum(np.fmax(at, np.float32(0.0)), last)
    before = at.astype(np.int32)
    fraction = at - before.astype(np.float32)
    per_bin = (len(boxes), 2, BINS, 2 * SAMPLES)
    neighbours = before, np.minimum(before + 1, last.astype(np.int32))
    positions = np.stack(neighbours, -1).reshape(per_bin)
    shares = np.stack((1.0 - fraction, fraction), -1)
    shares *= inside[..., None] / np.float32(SAMPLES)
    shares = shares.reshape(per_bin)
    row_starts = positions[:, 1] * size[:, 0, None, None].astype(np.int32)
    row_starts += starts[box_levels, None, None]
    # Rows and columns of a bin are laid out in full before they meet: inner loops of 16 are four times as fast as of 4.
    indices = _repeated(row_starts) + _tiled(positions[:, 0])
    weights = _repeated(shares[:, 1]) * _tiled(shares[:, 0])
    ends = np.arange(0, indices.size + 1, indices.shape[-1], dtype=np.int32)
    bins = np.zeros((len(ends) - 1, rows.shape[1]), np.float32)
    values = (of.ravel() for of in (indices, weights, rows, bins))
    _sparse_products().csr_matvecs(len(bins), *rows.shape, ends, *values)
    return bins.reshape(len(boxes), BINS * BINS * rows.shape[1])


@cache
def _sparse_products() -> ModuleType:
    """What `scipy.sparse` multiplies with, without the rest of it, which takes 0.3 s and 17 MB to load."""
    find = machinery.PathFinder.find_spec
    spec = find('_sparsetools', [f'{place}/scipy/sparse' for place in sys.path])
    if spec is None:  # an installation of another kind
        return import_module('scipy.sparse._sparsetools')
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)  # type: ignore[union-attr]  # of an extension module there is one
    return module


def _repeated(of_rows: np.ndarray) -> np.ndarray:
    return np.repeat(of_rows, 2 * SAMPLES, -1)[:, :, None]


def _tiled(of_columns: np.ndarray) -> np.ndarray:
    return np.tile(of_columns, 2 * SAMPLES)[:, None]


@cache
def level_table(
    shapes: tuple[tuple[int, int, int], ...], strides: tuple[int, ...]
) -> tuple[np.ndarray, ...]:
    """Of pyramid levels of these shapes: widths and heights `[levels, 2]`, first rows `[levels]`, scales `[levels, 1]`;
    and where the samples lie along a region, `[14]` in parts of its side."""
    rows = [0] + [images * height * width for images, height, width in shapes[:-1]]
    return (
        np.array([(width, height) for _, height, width in shapes], np.float32),
        np.cumsum(rows, dtype=np.int32),
        1.0 / np.array(strides, np.float32)[:, None],
        (np.arange(BINS * SAMPLES, dtype=np.float32) + 0.5) / (BINS * SAMPLES),
    )


def pyramid_levels(boxes: np.ndarray, levels: int, finest: int) -> np.ndarray:
    """See `heads.pyramid_levels`."""
    width, height = (boxes[:, 2:] - boxes[:, :2]).T
    side = np.sqrt(np.maximum(width * height, np.float32(1.0)))
    level = np.clip(np.floor(np.log2(side / np.float32(14.0 * finest)) + 1.0), 0, levels - 1)
    return np.nan_to_num(level).astype(np.intp)
