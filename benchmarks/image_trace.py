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
from parts.harness import Run, option, run_script, show

from deadline_perception import deadline_detector
from deadline_perception.core.detections import Detections
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.measurement_plan import distinct_paths
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.engines.segment_run import SegmentRun
from deadline_perception.extras.faster_rcnn.declaration import multi_path_space
from deadline_perception.runtime.loading import make_policy
from deadline_perception.runtime.task import Task
from deadline_perception.timing.calibration import BoundCalibrator
from deadline_perception.timing.part_bound import PartBound
from deadline_perception.timing.path_bound import SegmentForecast
from deadline_perception.timing.recent_times import RecentTimes
from deadline_perception.timing.time_model import TimeModel

PACKAGE = str(Path(deadline_detector.__file__).parent)
SPACE = multi_path_space(
    skips_per_stage=(1, 1, 1),
    widths=(1.0, 0.8, 0.6, 0.4, 0.2),
    pyramid_widths=(1.0, 0.75, 0.5),
    proposals=(10, 25, 50, 100, 300),
    heads=5,
)
RATED_PATHS = 60  # with a known quality; the others' is predicted
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
            code = frame.f_code
            name = getattr(code, 'co_qualname', code.co_name)
            self.calls.append((code.co_filename[len(PACKAGE) + 1 :], name))

    def take(self) -> list[tuple[str, str]]:
        """File and function of each call since the last time."""
        calls, self.calls = self.calls, []
        return calls


class EmptyNetwork:
    """A network that computes nothing and finds nothing."""

    result_type = Detections
    path_space = SPACE
    class_names = ('vehicle',)

    def start(self, image: np.ndarray, path: ExecutionPath) -> EmptyRun:
        """Begins a frame."""
        return EmptyRun(SPACE, path)


class EmptyRun(SegmentRun):
    """A frame of it."""

    def compute(self, name: str, key: str) -> None:
        """Nothing."""

    def result(self) -> Detections:
        """Nothing."""
        return Detections.none()

    result_so_far = result


def make_task() -> Task:
    """An empty network, and all that decides its paths by drawn times and qualities."""
    rng = random.Random(0)
    forecast = SegmentForecast(SPACE, {name: rng.uniform(0.2, 10.0) for name in SPACE.carriers()})
    rated = distinct_paths(SPACE, RATED_PATHS, rng)
    quality = PathQuality({path: 0.001 * forecast.forecast_ms(path) for path in rated})
    policy = make_policy('frontier', SPACE, forecast, quality)
    bound = PartBound(BoundCalibrator(0.01, 0.05, math.log(8.0)), RecentTimes(0.01))
    return Task(EmptyNetwork(), policy, TimeModel(SPACE, forecast, bound))


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
    run.goal('calls with what is learnt from it', with_learning, most=GOAL_WITH_LEARNING)
    run.write(
        images=len(traces),
        calls=calls,
        calls_with_learning=with_learning,
        files=files,
        calls_by_file=dict(by_file.most_common()),
    )


if __name__ == '__main__':
    run_script(main, {'--images': option(20, 'that are followed', least=1)}, quick='three images')
