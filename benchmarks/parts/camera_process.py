"""A process with some cameras: `python camera_process.py MODEL COUNT`; a line in is a round, a JSON line out."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from deadline_perception.core.images.image_file import load_image
from deadline_perception.core.opencv import cv2
from deadline_perception.core.share_folder import share_folder
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.deadline_detector import DeadlineDetector

FRAMES = 12  # of a round, of all cameras together


def memory_mb() -> dict[str, float]:
    """Resident memory of this process, alone and with its share of what others have too."""
    lines = Path('/proc/self/smaps_rollup').read_text().splitlines()[1:]
    kb = {name: int(rest.split()[0]) for name, _, rest in (line.partition(':') for line in lines)}
    return {name: round(kb[name.capitalize()] / 1024, 1) for name in ('pss', 'rss')}


def main() -> None:
    model, count = sys.argv[1], int(sys.argv[2])
    image = cv2.resize(load_image(share_folder() / 'config' / 'photograph.jpg'), (1280, 720))
    cameras = [DeadlineDetector(model) for _ in range(count)]
    stamp_ns = 0

    def run_round() -> dict[str, object]:
        nonlocal stamp_ns
        cpu_s, frames = time.process_time(), []
        for number in range(FRAMES):
            stamp_ns += 10_000_000
            begun_ms = now_ms()
            cameras[number % count].detect(image, None, stamp_ns=stamp_ns)
            frames.append(now_ms() - begun_ms)
        cpu_ms = (time.process_time() - cpu_s) * 1000.0 / FRAMES
        return {'frames_ms': frames, 'cpu_ms': cpu_ms, **memory_mb()}

    for _ in range(2):
        run_round()  # whatever comes first comes once
    print('ready', flush=True)
    for _ in sys.stdin:
        print(json.dumps(run_round()), flush=True)
    for camera in cameras:
        camera.close()


if __name__ == '__main__':
    main()
