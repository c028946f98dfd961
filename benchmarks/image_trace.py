"""Python calls that one image takes from its arrival to its answer, through a network that computes nothing.

    python benchmarks/image_trace.py [--images 20]

What a reader, and a profiler, has to follow: calls of the package's functions on all threads, and the files that they
lie in; until the answer is out, and with what is learnt from the image afterwards. 13 segments, 7 operators, policy
`frontier`, ample time. Medians. Writes results/image_trace.json.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
from decision_cost import SPACES, NoNetwork, made_up_quality, made_up_times
from parts.harness import Run, option, run_script, show

from deadline_perception import deadline_detector
from deadline_perception.runtime.loading import make_policy
from deadline_perception.runtime.task import Task
from deadline_perception.timing.calibration import BoundCalibrator
from deadline_perception.timing.part_bound import PartBound
from deadline_perception.timing.recent_times import RecentTimes
from deadline_perception.timing.time_model import TimeModel

PACKAGE = str(Path(deadline_detector.__file__).parent)
SPACE = SPACES[1]
BUDGET_MS = 20_000.0
WARM_UP = 5  # images before those that are followed
GOAL_CALLS, GOAL_FILES, GOAL_WITH_LEARNING = 200, 12, 300
ANSWERED = 'on_record'  # the last function on an answer's way


class Trace:
    """Sees calls of the package's functions on every thread that starts after it, while `is_on`."""

    def __init__(self) -> None:
        self.is_on, self.calls = False, []
        threading.setprofile(self._see)
        sys.setprofile(self._see)

    def _see(self, frame, event: str, argument: object) -> None:
        if event == 'call' and self.is_on and frame.f_code.co_filename.startswith(PACKAGE):
            self.calls.append(
                (
                    frame.f_code.co_filename[len(PACKAGE) + 1 :],
                    frame.f_code.co_qualname
                    if hasattr(frame.f_code, 'co_qualname')
                    else frame.f_code.co_name,
                )
            )

    def take(self) -> list[tuple[str, str]]:
        """File and function of each call since the last time."""
        calls, self.calls = self.calls, []
        return calls


def make_task() -> Task:
    """A network that finds nothing, and all that decides its paths."""
    rng = random.Random(0)
    forecast = made_up_times(SPACE, rng)
    policy = make_policy('frontier', SPACE, forecast, made_up_quality(SPACE, forecast, rng))
    network = NoNetwork(SPACE, None)
    network.class_names = ('vehicle',)
    bound = PartBound(BoundCalibrator(0.01, 0.05, math.log(8.0)), RecentTimes(0.01))
    return Task(network, policy, TimeModel(SPACE, forecast, bound))


def follow(images: int) -> list[list[tuple[str, str]]]:
    """The calls of each image."""
    task, image, found = make_task(), np.zeros((96, 160, 3), np.uint8), []
    trace = Trace()
    try:
        with deadline_detector.DeadlineDetector(task) as detector, detector.stream() as stream:
            for number in range(WARM_UP + images):
                trace.is_on = number >= WARM_UP
                answer = stream.detect(image, BUDGET_MS)
                while stream.pipeline.busy_since_ms is not None:  # learns from it
                    time.sleep(0.001)
                trace.is_on = False
                if not answer.in_time:
                    raise RuntimeError(f'an image was not in time: {answer.reason}')
                if number >= WARM_UP:
                    found.append(trace.take())
    finally:
        threading.setprofile(None)
        sys.setprofile(None)
    return found


def until_answer(trace: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those calls of an image that its answer waits for."""
    last = next(at for at, (_, name) in enumerate(trace) if name.endswith(ANSWERED))
    return trace[: last + 1]


def main(run: Run) -> None:
    args = run.args
    whole = follow(3 if run.quick else args.images)
    traces = [until_answer(trace) for trace in whole]
    calls = statistics.median(len(trace) for trace in traces)
    files = statistics.median(len({file for file, _ in trace}) for trace in traces)
    by_file = Counter(file for file, _ in traces[-1])
    with_learning = statistics.median(len(trace) for trace in whole)
    show('calls by file until the answer, last image', ('file', 'calls'), by_file.most_common())
    if not calls:
        raise RuntimeError(f'no call of {PACKAGE} was seen')
    run.goal('calls of one image', calls, most=GOAL_CALLS)
    run.goal('files of one image', files, most=GOAL_FILES)
    words = 'calls with what is learnt from it'
    run.goal(words, with_learning, most=GOAL_WITH_LEARNING)
    run.write(
        images=len(traces),
        calls=calls,
        calls_with_learning=with_learning,
        files=files,
        calls_by_file=dict(by_file.most_common()),
    )


if __name__ == '__main__':
    run_script(
        main,
        {'--images': option(20, 'that are followed', least=1)},
        quick='three images',
    )
