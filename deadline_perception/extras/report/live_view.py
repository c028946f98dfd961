"""What the detector sees and decides, live in a browser, by the Rerun SDK (`pip install "deadline_perception[view]"`).

The page works offline, and keeps what it was sent, so that one can go back in time on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.images.annotate import class_colour, class_name
from deadline_perception.core.opencv import cv2
from deadline_perception.core.operator_record import OperatorRecord

GRPC_PORT, WEB_PORT = 9876, 9090
_MEMORY = '1GiB'  # of frames that a page which is opened later still gets
_MOST_WIDTH = 640  # px: as pixels, for a slow browser decodes no JPEG before the next one comes, and so shows none
_WAITING = (
    'Loading the network; the first time on a machine it is prepared for it, which takes a minute.'
)
_TIMES = (
    ('budget', (140, 140, 140)),  # seen on a dark page and a light one
    ('bound', (242, 177, 52)),
    ('latency', (90, 170, 245)),
)


class ViewError(DeadlinePerceptionError):
    """The live view cannot be shown; the message says what is missing."""


@dataclass(frozen=True, eq=False)
class ViewedFrame:
    """One answered image as it is shown.

    Attributes:
        time_s: of the image, on a clock that does not go back.
        image_bgr: uint8 `[H, W, 3]`.
        ids: of the tracks, one per detection; empty where none are known.
        bound_ms: of the whole frame; NaN without a path.
        in_time: its own result came by the deadline.
        operators: what each was set to, in the order of execution.
        reason: one line: why this path, or why not in time.
    """

    time_s: float
    image_bgr: np.ndarray
    detections: Detections
    class_names: Sequence[str]
    ids: Sequence[object]
    budget_ms: float
    bound_ms: float
    latency_ms: float
    path: str
    outcome: str
    in_time: bool
    operators: Sequence[OperatorRecord] = ()
    reason: str = ''


class LiveView:
    """Serves the page until `close`.

    Args:
        grpc_port, web_port: of this machine; two views at a time need ports of their own.
        opens_browser: shows the page at once where there is a browser.

    Attributes:
        address: of the page.

    Raises:
        ViewError: the Rerun SDK is not installed, or a port is taken.
    """

    def __init__(
        self,
        *,
        grpc_port: int = GRPC_PORT,
        web_port: int = WEB_PORT,
        opens_browser: bool = False,
    ) -> None:
        try:
            import rerun
        except ImportError as error:
            raise ViewError(
                'the live view needs the Rerun SDK: pip install "deadline_perception[view]", or pip install rerun-sdk'
            ) from error
        self._rerun, self._stream = rerun, rerun.RecordingStream('deadline_perception')
        self._begin_s: float | None = None
        try:
            data = self._stream.serve_grpc(
                grpc_port=grpc_port, default_blueprint=_layout(), server_memory_limit=_MEMORY
            )
            rerun.serve_web_viewer(web_port=web_port, open_browser=opens_browser, connect_to=data)
        except (RuntimeError, OSError) as error:
            raise ViewError(
                f'ports {grpc_port} and {web_port} of the live view cannot be opened: {error}'
            ) from error
        self.address = f'http://localhost:{web_port}/?url={data.replace("+", "%2B")}'

    def wait(self, image_bgr: np.ndarray | None = None) -> None:
        """Shows, until the first frame is, the source's first image, where it is known, and what is waited for."""
        rerun, stream = self._rerun, self._stream
        stream.reset_time()  # the frames' own begins anywhere
        if image_bgr is not None:
            self._show_image(image_bgr)
        stream.log('frame', rerun.TextDocument(_WAITING))

    def show(self, frame: ViewedFrame) -> None:
        """Sends one frame; takes some milliseconds, so not on the thread that computes."""
        rerun, stream = self._rerun, self._stream
        if self._begin_s is None:
            self._begin_s = frame.time_s
            for name, colour in _TIMES:
                style = rerun.SeriesLines(colors=[colour], names=[f'{name}, ms'])
                stream.log(f'time/{name}', style, static=True)
        stream.set_time('time', duration=frame.time_s - self._begin_s)
        scale = self._show_image(frame.image_bgr)
        names = [class_name(label, frame.class_names) for label in frame.detections.labels.tolist()]
        stream.log(
            'camera/objects',
            rerun.Boxes2D(
                array=frame.detections.boxes_xyxy_px * scale,
                array_format=rerun.Box2DFormat.XYXY,
                labels=_labels(frame, names),
                colors=[class_colour(name)[::-1] for name in names],
                show_labels=True,
            ),
        )
        for name, value_ms in (
            ('budget', frame.budget_ms),
            ('bound', frame.bound_ms),
            ('latency', frame.latency_ms),
        ):
            if math.isfinite(value_ms):
                stream.log(f'time/{name}', rerun.Scalars(value_ms))
        for operator in frame.operators:
            share = operator.level / (operator.levels - 1) if operator.levels > 1 else 1.0
            stream.log(f'operators/{operator.name}', rerun.Scalars(100.0 * share))
        stream.log(
            'frame',
            rerun.TextDocument(described(frame), media_type=rerun.MediaType.MARKDOWN),
        )
        if not frame.in_time:
            words = f'{frame.outcome}: {frame.reason}'
            stream.log('late', rerun.TextLog(words, level=rerun.TextLogLevel.WARN))

    def _show_image(self, image_bgr: np.ndarray) -> float:
        """Sends an image, smaller where it is large; gives by what factor."""
        scale = min(1.0, _MOST_WIDTH / image_bgr.shape[1])
        if scale < 1.0:
            image_bgr = cv2.resize(
                image_bgr, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA
            )
        self._stream.log('camera', self._rerun.Image(image_bgr, color_model='BGR'))
        return scale

    def close(self) -> None:
        """Sends what is left; the page stays open in the browser with what it has."""
        self._stream.flush()
        self._stream.disconnect()


def described(frame: ViewedFrame) -> str:
    """The frame in Markdown: times, path, and what each operator decided."""
    verdict = 'in time' if frame.in_time else '**missed**'
    bound = f', bound {frame.bound_ms:.0f}' if math.isfinite(frame.bound_ms) else ''
    lines = [
        f'**{frame.latency_ms:.0f} of {frame.budget_ms:.0f} ms**{bound}: {frame.outcome}, {verdict}',
        '',
        f'`{frame.path or "no path"}`',
        '',
        frame.reason,
    ]
    if frame.operators:
        lines += ['', '| operator | setting | of | decided |', '| --- | --- | --- | --- |']
    for operator in frame.operators:
        decided = ('changed' if operator.changed else 'kept') if operator.decided else 'as planned'
        lines.append(
            f'| {operator.name} | {operator.setting} | {operator.level + 1} of {operator.levels} | {decided} |'
        )
    return '\n'.join(lines)


def _labels(frame: ViewedFrame, names: Sequence[str]) -> list[str]:
    ids = [f' #{one}' for one in frame.ids] or [''] * len(names)
    return [
        f'{name.replace("_", " ")}{one} {score:.2f}'
        for name, one, score in zip(names, ids, frame.detections.scores.tolist())
    ]


def _layout():
    """The image beside the curves of time and operators, and what was decided."""
    import rerun.blueprint as blueprint

    return blueprint.Blueprint(
        blueprint.Horizontal(
            blueprint.Vertical(
                blueprint.Spatial2DView(origin='camera', name='Camera'),
                blueprint.TextLogView(origin='late', name='Frames that were not in time'),
                row_shares=[4, 1],
            ),
            blueprint.Vertical(
                blueprint.TimeSeriesView(origin='time', name='Budget, bound, latency (ms)'),
                blueprint.TimeSeriesView(
                    origin='operators', name='Path: each operator, percent of full work'
                ),
                blueprint.TextDocumentView(origin='frame', name='This frame'),
                row_shares=[3, 3, 4],
            ),
            column_shares=[3, 2],
        ),
        blueprint.TimePanel(state='collapsed'),
        blueprint.SelectionPanel(state='hidden'),
        blueprint.BlueprintPanel(state='hidden'),
    )
