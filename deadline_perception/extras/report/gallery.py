"""Chooses frames of a run that tell most about it, and draws them with what the detector said."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence as Many
from dataclasses import dataclass

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.images.annotate import annotate
from deadline_perception.core.opencv import cv2
from deadline_perception.extras.data.records import Frame, Sequence, spread_evenly
from deadline_perception.extras.report.recording import FrameRecord, Recording

PICTURES = 8
_MISSED = 3  # at most so many of the pictures are frames that missed
_WIDTH_PX, _JPEG_QUALITY = 640, 82
_DASH_PX, _WHITE = 6, (255, 255, 255)
CLICKED = 400  # frames of which a picture is kept for clicks on charts, half of them for misses
_CLICKED_WIDTH_PX, _CLICKED_QUALITY = 520, 70  # a page of so many stays below 20 MB
_SAME_PLACE_PX = 0.5
SHOWN_SCORE = 0.3  # detections below it count for accuracy, but would hide the picture


@dataclass(frozen=True, eq=False)
class Picture:
    """One annotated frame.

    Attributes:
        frame: the frame shown.
        data_uri: JPEG as a `data:` address, for a page by itself.
    """

    frame: FrameRecord
    data_uri: str


def chosen_frames(
    frames: list[FrameRecord], count: int = PICTURES, missed: int = _MISSED
) -> list[FrameRecord]:
    """Frames distributed evenly over the run with some that missed among them, in the order of their stamps.

    Args:
        frames: to choose from.
        count: so many are chosen, or all.
        missed: at most so many are taken from those that missed, before the rest is shared among all others.
    """
    chosen = spread_evenly([frame for frame in frames if not frame.in_time], missed)
    taken = {id(frame) for frame in chosen}
    others = [frame for frame in frames if id(frame) not in taken]
    return sorted(
        chosen + spread_evenly(others, count - len(chosen)), key=lambda frame: frame.stamp_ns
    )


def images_of(recording: Recording, source: Sequence) -> dict[int, Frame]:
    """The source's frame for every sent stamp, as far as they are known to belong together.

    Stamps that are equal belong together. Otherwise the player has moved them to the wall clock: then frames belong
    together in their order, provided that all were sent, or that one stretch of them alone shows the same rhythm and,
    where they are known on both sides, the same objects. Else empty: no picture is better than a wrong one.
    """
    by_stamp = {frame.stamp_ns: frame for frame in source.frames}
    sent = [stamp_ns for stamp_ns in recording.sent_stamps_ns if stamp_ns]
    if not sent:
        return {}
    equal = {stamp_ns: by_stamp[stamp_ns] for stamp_ns in sent if stamp_ns in by_stamp}
    if len(equal) > len(sent) // 2:
        return equal
    if len(sent) == len(source.frames):
        return dict(zip(sent, source.frames))
    if not 2 < len(sent) < len(source.frames):
        return {}
    stretches = [
        source.frames[begin : begin + len(sent)]
        for begin in range(len(source.frames) - len(sent) + 1)
    ]
    fitting = [
        frames for frames in stretches if _same_rhythm(sent, [frame.stamp_ns for frame in frames])
    ]
    if len(fitting) > 1:
        fitting = [frames for frames in fitting if _same_objects(recording, sent, frames)]
    return dict(zip(sent, fitting[0])) if len(fitting) == 1 else {}


def gallery(recording: Recording, source: Sequence) -> list[Picture]:
    """Annotated pictures of the chosen frames, as many as have an image in the source."""
    images = images_of(recording, source)
    return [
        Picture(frame, _drawn(recording, frame, images, _WIDTH_PX, _JPEG_QUALITY))
        for frame in chosen_frames(_pictured(recording, images))
    ]


def frame_pictures(recording: Recording, source: Sequence) -> dict[int, str]:
    """Smaller pictures of up to `CLICKED` frames by stamp, as `data:` addresses."""
    images = images_of(recording, source)
    chosen = chosen_frames(_pictured(recording, images), CLICKED, CLICKED // 2)
    return {
        frame.stamp_ns: _drawn(recording, frame, images, _CLICKED_WIDTH_PX, _CLICKED_QUALITY)
        for frame in chosen
    }


def _pictured(recording: Recording, images: dict[int, Frame]) -> list[FrameRecord]:
    return [
        frame
        for frame in recording.frames
        if frame.stamp_ns in images and math.isfinite(frame.total_ms)
    ]


def _same_rhythm(sent: list[int], source: list[int]) -> bool:
    """Stamps of the source, multiplied by one factor for the rate, fit the sent ones to half a frame."""
    sent_ns = np.array(sent, dtype=np.float64) - sent[0]
    source_ns = np.array(source, dtype=np.float64) - source[0]
    resampled_ns = source_ns * (sent_ns[-1] / source_ns[-1])
    return bool(np.abs(sent_ns - resampled_ns).max() < 0.5 * sent_ns[-1] / (len(sent) - 1))


def _same_objects(recording: Recording, sent: list[int], frames: Many[Frame]) -> bool:
    """Objects are known on both sides of some frames, and lie in the same places on all of these."""
    pairs = [
        (recording.ground_truth[stamp_ns].boxes_xyxy_px, frame.ground_truth.boxes_xyxy_px)
        for stamp_ns, frame in zip(sent, frames)
        if stamp_ns in recording.ground_truth and frame.ground_truth is not None
    ]
    return any(len(mine) for mine, _ in pairs) and all(
        mine.shape == other.shape and np.allclose(mine, other, atol=_SAME_PLACE_PX)
        for mine, other in pairs
    )


def _drawn(
    recording: Recording, frame: FrameRecord, images: dict[int, Frame], width_px: int, quality: int
) -> str:
    detections = (frame.detections or Detections.none()).with_score(SHOWN_SCORE)
    image_bgr = images[frame.stamp_ns].load_bgr()
    known = recording.ground_truth.get(frame.stamp_ns)
    if known is not None:  # below boxes and words, which they would strike out
        image_bgr = image_bgr.copy()
        dash(image_bgr, known.boxes_xyxy_px[~known.crowd])
    drawn = annotate(
        image_bgr,
        detections,
        recording.class_names,
        budget_ms=frame.budget_ms,
        bound_ms=frame.total_bound_ms,
        latency_ms=frame.total_ms,
        path=frame.path,
        operators=frame.decision.operators if frame.decision else (),
        outcome=frame.outcome.name.lower(),
        met=frame.in_time,
    )
    if drawn.shape[1] > width_px:
        height_px = round(drawn.shape[0] * width_px / drawn.shape[1])
        drawn = cv2.resize(drawn, (width_px, height_px), interpolation=cv2.INTER_AREA)
    _, jpeg = cv2.imencode('.jpg', drawn, [cv2.IMWRITE_JPEG_QUALITY, quality])
    return 'data:image/jpeg;base64,' + base64.b64encode(jpeg.tobytes()).decode('ascii')


def dash(picture: np.ndarray, boxes_xyxy_px: np.ndarray) -> None:
    """Draws boxes `[N, 4]` dashed in white."""
    for box in boxes_xyxy_px:
        x0, y0, x1, y1 = np.clip(box, -32000.0, 32000.0).round().astype(int).tolist()
        for x in range(x0, x1, 2 * _DASH_PX):
            for y in (y0, y1):
                cv2.line(picture, (x, y), (min(x + _DASH_PX, x1), y), _WHITE, 1)
        for y in range(y0, y1, 2 * _DASH_PX):
            for x in (x0, x1):
                cv2.line(picture, (x, y), (x, min(y + _DASH_PX, y1)), _WHITE, 1)
