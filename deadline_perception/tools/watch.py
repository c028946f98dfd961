"""Watch the detector at work, live in the browser: what it finds, its budget, bound and latency, and what it decides.

Plays SOURCE at its own speed (a photo, a folder, a video, a bag; 0 for the webcam); as on a vehicle, an image that finds
another one waiting supersedes it. The page keeps what it was sent: drag its time line to go back. Ctrl-C ends it.
"""

from __future__ import annotations

import argparse
import time
from queue import Empty, Queue

from deadline_perception.extras.data.shown_source import open_shown
from deadline_perception.tools.detect import (
    add_view_arguments,
    check_view_arguments,
    open_detector,
    open_view,
)
from deadline_perception.tools.support.stop_request import StopRequest
from deadline_perception.tools.support.terminal import say

_FIRST_STAMP_NS = 10**9
_WAITING = 30  # answers for the page; more are not shown
_LINGER_S = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_view_arguments(parser)
    parser.add_argument(
        '--once', action='store_true', help='end with the source, in place of playing it again'
    )


def run(args: argparse.Namespace) -> int:
    """Plays and shows until Ctrl-C, or the end of the source; returns the exit status."""
    check_view_arguments(args)
    source = open_shown(args.source)
    from deadline_perception.extras.report.answer_view import viewed

    view = open_view(source)
    stop = StopRequest()
    answers: Queue = Queue(_WAITING)

    def keep(answer) -> None:  # on the thread that computes: short
        if not answers.full():
            answers.put_nowait(answer)

    def show_waiting(images: dict) -> None:
        while True:
            try:
                answer = answers.get_nowait()
            except Empty:
                return
            stamp_ns = answer.record.stamp.stamp_ns
            image = images.pop(stamp_ns, None)
            for old in [old for old in images if old < stamp_ns]:
                del images[old]
            if image is not None:
                view.show(viewed(image, answer, stamp_ns / 1e9))

    shown = 0
    with open_detector(args) as detector, detector.stream(keep) as stream, stop.listening():
        images: dict = {}
        stamp_ns = _FIRST_STAMP_NS
        period_s = 1.0 / source.rate_hz
        while not stop():
            for image in source.images():
                due_s = time.monotonic() + (0.0 if source.count is None else period_s)
                stamp_ns += round(period_s * 1e9)
                images[stamp_ns] = image.image_bgr
                stream.submit(image.image_bgr, stamp_ns, args.budget)
                shown += 1
                show_waiting(images)
                time.sleep(max(0.0, due_s - time.monotonic()))
                if stop():
                    break
            if args.once:
                break
        time.sleep(_LINGER_S)
        show_waiting(images)
    view.close()
    say(f'{shown} images played')
    return 0
