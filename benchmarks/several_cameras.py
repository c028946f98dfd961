"""What a further camera costs: memory and time of a frame with 1, 2 and 4 detectors of one model in a process; and how
fair four cameras share one thread.

    python benchmarks/several_cameras.py [--model street] [--rounds 8] [--images 100]

Each number of cameras is a process of its own; all take their rounds in turn, in random order, so that what else the
machine does falls on all alike: ratios count. A frame has no limit of time, so that all take the longest path. Memory
is PSS, what others share counted in part, and RSS. Then four cameras of 10 Hz send their images, together or in turn,
with budgets of 100, 100, 100 and 50 ms: the share of each camera's images that is answered in time, those that a newer one
replaced counted as not in time.
Writes results/several_cameras.json.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing.connection import Connection
from statistics import median

import numpy as np
import psutil
from parts.beside_programs import served_process
from parts.harness import Run, option, quantiles, run_script, timed_ms, turns

from deadline_perception.core.device import DEFAULT_THREADS
from deadline_perception.core.images.image_file import load_image
from deadline_perception.core.opencv import cv2
from deadline_perception.core.share_folder import share_folder
from deadline_perception.deadline_detector import DeadlineDetector
from deadline_perception.runtime.executor import Executor

CAMERAS = 1, 2, 4
FRAMES = 12  # of a round, of all cameras together
MOST_MB, MOST_PERCENT = 40.0, 3.0  # of a further camera
RATE_HZ, BUDGETS_MS = 10.0, (100.0, 100.0, 100.0, 50.0)
APART_S = {'together': 0.0, 'in turn': 0.25 / RATE_HZ}
LEAST_IN_TIME = 0.98
FIRST_IMAGE_S = 6.0  # once all cameras have started


def photograph() -> np.ndarray:
    """What all cameras see."""
    return cv2.resize(load_image(share_folder() / 'config' / 'photograph.jpg'), (1280, 720))


def serve(asked: Connection, model: str, count: int) -> None:
    """A process with some cameras: answers whatever comes with a round."""
    image = photograph()
    cameras = [DeadlineDetector(model) for _ in range(count)]
    stamp_ns = 0

    def detect(number: int) -> None:
        nonlocal stamp_ns
        stamp_ns += 10_000_000
        cameras[number % count].detect(image, None, stamp_ns=stamp_ns)

    def run_round() -> dict[str, object]:
        cpu_s = time.process_time()
        frames_ms = [timed_ms(lambda: detect(number)) for number in range(FRAMES)]
        cpu_ms = (time.process_time() - cpu_s) * 1000.0 / FRAMES
        held = psutil.Process().memory_full_info()
        memory_mb = {name: round(getattr(held, name) / 2**20, 1) for name in ('pss', 'rss')}
        return {'frames_ms': frames_ms, 'cpu_ms': cpu_ms, **memory_mb}

    for _ in range(2):
        run_round()  # whatever comes first comes once
    asked.send(True)
    while asked.recv():
        asked.send(run_round())


def main(run: Run) -> None:
    args, rounds = run.args, 2 if run.quick else run.args.rounds
    pipes: dict[int, Connection] = {}
    taken: dict[int, list[dict]] = {count: [] for count in CAMERAS}
    with ExitStack() as processes:
        for count in CAMERAS:  # one after the other, so that none waits for another
            process = served_process(serve, args.model, count)
            pipes[count] = processes.enter_context(process)
            try:
                pipes[count].recv()
            except EOFError as error:
                wanted = 'expected a model of this device'
                raise ValueError(f'{args.model} cannot be loaded, {wanted}') from error
        for _, count in turns(CAMERAS, rounds):
            pipes[count].send(True)
            taken[count].append(pipes[count].recv())
    rows = {str(count): figures(count, found, taken[1]) for count, found in taken.items()}
    for name, row in rows.items():
        print(f'{name}: {row}')
    run.goal('memory of a further camera, MB,', rows['4']['further_mb'], most=MOST_MB)
    run.goal(
        'time of a frame with 4 cameras, % more,', rows['4']['more_time_percent'], most=MOST_PERCENT
    )
    images = 20 if run.quick else args.images
    fair = {name: shares_in_time(args.model, images, apart_s) for name, apart_s in APART_S.items()}
    for name, shares in fair.items():
        print(f'{name}: {shares}')
        run.goal(f'least of four cameras in time, {name},', min(shares), least=LEAST_IN_TIME)
    run.write(model=args.model, rounds=rounds, cameras=rows, images=images, in_time=fair)


def shares_in_time(model: str, images: int, apart_s: float) -> list[float]:
    """Of the images of four cameras on one thread, each of which begins so long after the one before."""
    image, begin_s = photograph(), time.monotonic() + FIRST_IMAGE_S

    def sent(number: int) -> Iterator[np.ndarray]:
        for count in range(images):
            at_s = begin_s + number * apart_s + count / RATE_HZ
            time.sleep(max(0.0, at_s - time.monotonic()))
            yield image

    def share(number: int, executor: Executor) -> float:
        with DeadlineDetector(model, executor=executor) as detector:
            answers = detector.answers(sent(number), BUDGETS_MS[number], rate_hz=RATE_HZ)
            return round(sum(answer.in_time for answer in answers) / images, 3)

    with Executor() as executor, ThreadPoolExecutor(len(BUDGETS_MS)) as cameras:
        return list(cameras.map(lambda number: share(number, executor), range(len(BUDGETS_MS))))


def figures(count: int, found: list[dict], alone: list[dict]) -> dict[str, object]:
    """Of a number of cameras, beside the rounds of one camera."""
    pss_mb, alone_mb = (found_of[-1]['pss'] for found_of in (found, alone))
    ratios = [
        median(here['frames_ms']) / median(there['frames_ms']) for here, there in zip(found, alone)
    ]
    return {
        'pss_mb': pss_mb,
        'further_mb': None if count == 1 else round((pss_mb - alone_mb) / (count - 1), 1),
        'rss_mb': found[-1]['rss'],
        'frame_ms': quantiles([ms for each in found for ms in each['frames_ms']], 'p50', 'p90'),
        'cpu_ms': round(median(each['cpu_ms'] for each in found), 2),
        'more_time_percent': round(100.0 * (median(ratios) - 1.0), 1),
    }


if __name__ == '__main__':
    run_script(
        main,
        {
            '--model': option('street', 'name or file'),
            '--rounds': option(8, 'of 12 frames each', least=1),
            '--images': option(100, 'of each camera', least=20),
        },
        quick='2 rounds',
        threads=DEFAULT_THREADS,
    )
