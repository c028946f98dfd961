"""Find objects in a photo, a folder, a video, a bag or the webcam, and draw them.

Every image is answered within --budget milliseconds, on the best path that fits. Into --out go the annotated pictures,
or a video of them, and what was found as COCO JSON and CSV. SOURCE may also be a data set, or 'drive' for a rendered
one; a number is a webcam, of which Ctrl-C ends it. `deadline-perception watch` shows the same live in a browser.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

from deadline_perception.core.errors import command_line
from deadline_perception.core.replaced_file import replace_file
from deadline_perception.core.share_folder import DEFAULT_MODEL
from deadline_perception.extras.data.image_folder import file_of
from deadline_perception.extras.data.shown_source import ShownImage, ShownSource, open_shown
from deadline_perception.extras.data.video import opencv_path
from deadline_perception.tools.support.file_arguments import (
    THREADS,
    add_device_arguments,
    check_folder,
    check_numbers,
)
from deadline_perception.tools.support.stop_request import StopRequest
from deadline_perception.tools.support.terminal import progress_bar, say

MOST_BUDGET_MS = 60_000.0
_LOOSE_BOUNDS = 3.0  # times what the network took, median
_LEAST_IMAGES = 20  # for a word about their bounds
_LISTED = 10  # pictures, each with a line of its own


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_view_arguments(parser)
    parser.add_argument(
        '--out', type=Path, default=Path('out/detect'), help='folder for pictures, JSON and CSV'
    )
    parser.add_argument(
        '--show', action='store_true', help='live in the browser as well (needs the extra [view])'
    )


def add_view_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares what both commands that show a source are given."""
    parser.add_argument(
        'source',
        metavar='SOURCE',
        help='photo, folder, video, bag, data set, drive; 0 for the webcam',
    )
    parser.add_argument(
        '--budget', type=float, default=100.0, metavar='MS', help='longest time for an image'
    )
    parser.add_argument(
        '--model',
        default=DEFAULT_MODEL,
        help='name of shipped weights, a weights file, a set.yaml, or a detector of your own (ONNX, ...)',
    )
    parser.add_argument('--min-score', type=float, default=0.3, help='of objects that are found')
    add_device_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Detects, draws and says where the pictures are; returns the exit status."""
    check_view_arguments(args)
    check_folder('--out', args.out)
    source = open_shown(args.source)
    args.out.mkdir(parents=True, exist_ok=True)  # where it cannot be, before a network is prepared
    stop = StopRequest()
    from deadline_perception.extras.report.answer_view import drawn, viewed
    from deadline_perception.extras.report.found_objects import FoundObjects

    view = open_view(source) if args.show else None
    in_time = 0
    looseness: list[float] = []  # bound of each path over the time that it took
    unreadable: list[str] = []
    with open_detector(args) as detector:
        found = FoundObjects(detector.class_names)
        with (
            _Pictures(args.out, source) as pictures,
            stop.listening(),
            progress_bar(
                'detecting', source.count, 'count', 'passed', shown=source.count != 1
            ) as update,
        ):
            for image in source.images(unreadable.append):
                answer = detector.detect(image.image_bgr, args.budget, stamp_ns=image.stamp_ns)
                in_time += answer.in_time
                if answer.network_ms > 0.0 and math.isfinite(answer.bound_ms):
                    looseness.append(answer.bound_ms / answer.network_ms)
                time_s = image.stamp_ns / 1e9 if image.stamp_ns else found.images / source.rate_hz
                frame = viewed(image.image_bgr, answer, time_s)
                file = pictures.add(image, drawn(frame))
                found.add(_name(image, args.out), frame)
                if view is not None:
                    view.show(frame)
                if not source.is_video and found.images <= _LISTED:
                    came = f'{answer.latency_ms:.0f} ms{"" if answer.in_time else ", not in time"}'
                    print(f'{file}: {_objects(frame)}; {came}, {answer.reason}')
                update(completed=found.images)
                if stop():
                    break
    found.write(args.out / 'detections.json', args.out / 'detections.csv')
    kinds = ', '.join(f'{count} {name}' for name, count in found.counts.most_common()) or 'nothing'
    images = f'{found.images} image{"" if found.images == 1 else "s"}'
    print(f'found on {images}: {kinds}; {in_time} answered within {args.budget:g} ms')
    if 2 * in_time < found.images:
        print(too_little_time(args.budget, os.getloadavg()[0], os.cpu_count() or 1))
    elif words := loose_bounds(looseness, args.model):
        print(words)
    print(
        f'wrote {pictures.place}, {args.out / "detections.json"} (COCO), {args.out / "detections.csv"}'
    )
    if view is not None:
        view.close()
    if unreadable:
        say(f'{len(unreadable)} of {source.count} images skipped: {unreadable[0]}')
    return int(bool(unreadable))


def too_little_time(budget_ms: float, load: float, cores: int) -> str:
    """What to do where most images were not answered in time.

    Args:
        budget_ms: that they had.
        load: mean number of programs that were ready to run, of the last minute.
        cores: that they share.
    """
    more = f'--budget {min(3.0 * budget_ms, MOST_BUDGET_MS):g} gives more time'
    if load <= cores:
        return more
    return (
        f'this machine is busy (load {load:.1f} on {cores} cores): try again when it is not; {more}'
    )


def loose_bounds(looseness: Sequence[float], model: str) -> str:
    """What to do where bounds keep paths from running that would have fitted; empty where they do not.

    Args:
        looseness: of each image, the bound of its path over the time that it took.
        model: that was run.
    """
    if len(looseness) < _LEAST_IMAGES or median(looseness) <= _LOOSE_BOUNDS:
        return ''
    return (
        f'bounds are {median(looseness):.0f} times what images took, so that smaller networks ran than would have '
        f'fitted; once, on an idle machine: {command_line("profile")} --weights {model}'
    )


def check_view_arguments(args: argparse.Namespace) -> None:
    """Refuses numbers out of their range before anything is loaded."""
    check_numbers(args, threads=THREADS, min_score=(0.0, 1.0))
    if not 0.0 < args.budget <= MOST_BUDGET_MS:
        raise ValueError(f'--budget is {args.budget:g} ms, expected more than 0, at most 60000 ms')


def open_detector(args: argparse.Namespace):
    """The detector that the arguments mean; may prepare it for this machine first, which takes a minute, once."""
    from deadline_perception.deadline_detector import DeadlineDetector
    from deadline_perception.runtime.loading import NetworkOptions

    options = NetworkOptions(str(args.model), device=args.device, threads=args.threads)
    return DeadlineDetector(options, min_score=args.min_score)


def open_view(source: ShownSource):
    """The live page, which has the first image of a file at once; its address is printed."""
    from deadline_perception.extras.report.live_view import LiveView

    view = LiveView(opens_browser=_has_screen())
    say(f'live view: {view.address}')
    is_file = source.sequence is not None
    first = next(source.images(lambda reason: None), None) if is_file else None
    view.wait(None if first is None else first.image_bgr)
    return view


def _has_screen() -> bool:
    return bool(os.environ.get('DISPLAY') or os.environ.get('WAYLAND_DISPLAY'))


def _objects(frame) -> str:
    names = [frame.class_names[label] for label in frame.detections.labels.tolist()]
    counts = {name: names.count(name) for name in dict.fromkeys(names)}
    return ', '.join(f'{count} {name}' for name, count in counts.items()) or 'nothing found'


def _name(image: ShownImage, out: Path) -> str:
    if image.file is None:
        return image.name
    return Path(os.path.relpath(image.file.absolute(), out.absolute())).as_posix()


class _Pictures:
    """Annotated images of a source: a JPEG each, or one video, which is in its place once the context is left without an
    error; else nothing of it stays.

    They lie in the folder whatever images are called, and replace neither each other nor an image of the source.

    Attributes:
        place: the video, the picture where there is one alone, else their folder.
    """

    def __init__(self, out: Path, source: ShownSource) -> None:
        self._out, self._source = out, source
        self._video, self._images = None, 0
        self.place = out / f'{Path(source.name).name}.mp4' if source.is_video else out
        self._partial = Path(opencv_path(out / f'.{self.place.name}.partial.mp4'))
        frames = source.sequence.frames if source.sequence else ()
        files = [file_of(frame.load_bgr) for frame in frames]
        self._taken = {os.path.abspath(file) for file in files if file is not None}
        out.mkdir(parents=True, exist_ok=True)

    def add(self, image: ShownImage, picture_bgr: np.ndarray) -> Path:
        """Writes one; gives its file.

        Raises:
            OSError: it cannot be written.
        """
        from deadline_perception.core.opencv import cv2

        if self._source.is_video:
            self._add_to_video(picture_bgr)
            return self.place
        inside = [part for part in Path(image.name).parts if part not in ('/', '..')]
        file = self._out.joinpath(*inside).with_suffix('.jpg')
        while os.path.abspath(file) in self._taken:
            file = file.with_suffix('.found.jpg')
        self._taken.add(os.path.abspath(file))
        replace_file(file, cv2.imencode('.jpg', picture_bgr)[1].tobytes())
        self.place = file if self._source.count == 1 else self._out
        return file

    def _add_to_video(self, picture_bgr: np.ndarray) -> None:
        from deadline_perception.core.opencv import cv2

        height, width = (
            side - side % 2 for side in picture_bgr.shape[:2]
        )  # which the codec asks for
        if self._video is None:
            self._size = (width, height)
            rate_hz = self._source.rate_hz if math.isfinite(self._source.rate_hz) else 10.0
            self._video = cv2.VideoWriter(
                str(self._partial), cv2.VideoWriter_fourcc(*'mp4v'), rate_hz, self._size
            )
            if not self._video.isOpened():
                raise OSError(f'{self.place} cannot be written as a video')
        if (width, height) != self._size:
            picture_bgr = cv2.resize(picture_bgr, self._size)
        self._video.write(picture_bgr[: self._size[1], : self._size[0]])
        self._images += 1

    def __enter__(self) -> _Pictures:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self._video is not None:
                self._video.release()
            if self._images and kind is None:
                self._put_into_place()
        finally:
            self._partial.unlink(missing_ok=True)

    def _put_into_place(self) -> None:
        """Raises OSError where the video was not written as a whole, as on a full disk: OpenCV tells nobody."""
        from deadline_perception.core.opencv import cv2

        video = cv2.VideoCapture(str(self._partial))
        written = video.get(cv2.CAP_PROP_FRAME_COUNT) if video.read()[0] else 0
        if written != self._images:
            raise OSError(
                f'{self.place} cannot be written: {self._images} images were to go into it, and it '
                f'has {written:.0f}; is there room on the disk?'
            )
        os.replace(self._partial, self.place)
