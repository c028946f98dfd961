"""The network of an older checkout, computed by that checkout's own code: what path_accuracy.py --old asks.

    git worktree add ../old 895830d
    python benchmarks/path_accuracy.py --old ../old

A process of its own imports the package from the checkout, with the libraries of this environment. It needs no
environment of the checkout's own, and none of its messages: commits from 069f3e6 (first good weights) to 895830d (group
norms, five skips, three heads, eager PyTorch) have what is asked for here.
"""
from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from served import Served, serve

Boxes = tuple[np.ndarray, np.ndarray, np.ndarray]  # boxes, scores and labels of one image


class OldNetwork:
    """Processes that run the network of a checkout.

    Args:
        checkout: working tree of the older commit.
        data: COCO annotations.
        limit: only so many images.
        processes: that detect; the first one is timed.

    Attributes:
        class_names: what its labels mean.
        measured: AP by which paths are ranked, in points, as the checkout's own table has it, by the path's name.
        longest, shortest: names of paths.
    """

    def __init__(self, checkout: Path, data: Path, limit: int | None, processes: int) -> None:
        weights = checkout / 'models' / 'compact.safetensors'
        if not weights.is_file():
            raise ValueError(f'{weights} is missing, expected a checkout with weights: git worktree add ../old 895830d')
        table = json.loads(weights.with_suffix('.quality.json').read_text(encoding='utf-8'))
        self.measured = {name: 100 * row[table['metric']] for name, row in table['paths'].items()}
        self._served = [Served([sys.executable, __file__, str(checkout.resolve()), str(data), str(limit or 0),
                                str(rank), str(processes)]) for rank in range(processes)]
        self.class_names, self.longest, self.shortest = self._served[0].ask('facts')

    def __enter__(self) -> OldNetwork:
        return self

    def __exit__(self, *of_error) -> None:
        for served in self._served:
            served.__exit__(*of_error)

    def time_ms(self, image: int, path: str) -> float:
        """Time of one whole frame."""
        return self._served[0].ask('time', image, path)

    def detect(self, paths: list[str]) -> dict[str, list[Boxes]]:
        """What each path finds, image by image."""
        for served in self._served:
            served.begin('detect', paths)
        shares = [served.answer() for served in self._served]
        found = {path: [None] * sum(len(share[path]) for share in shares) for path in paths}
        for rank, share in enumerate(shares):
            for path, boxes in share.items():
                found[path][rank::len(shares)] = boxes
        return found


def main(checkout: str, data: str, limit: str, rank: str, processes: str) -> None:
    """In the process: computes with the checkout's package alone."""
    import deadline_perception

    deadline_perception.__path__[:] = [str(Path(checkout) / 'deadline_perception')]
    from deadline_perception.datasets.coco import read_coco
    from deadline_perception.detector.checkpoint import load_detector
    from deadline_perception.evaluation.path_accuracy import annotated_frames, detect_on_frames
    from deadline_perception.execution_path import ExecutionPath
    from deadline_perception.latency.device import use_threads
    from deadline_perception.latency.profile import time_frame

    use_threads(1)
    detector = load_detector(Path(checkout) / 'models' / 'compact.safetensors')
    frames = annotated_frames(read_coco(Path(data)), int(limit) or None)
    images = [frame.load_bgr() for frame in frames[:40]] if rank == '0' else []
    space = detector.path_space

    def detect(names: list[str]) -> dict[str, list[Boxes]]:
        found = detect_on_frames(detector, frames[int(rank)::int(processes)],
                                 [ExecutionPath.parse(name) for name in names])
        return {str(path): [(each.boxes_xyxy_px, each.scores, each.labels) for each in images]
                for path, images in found.items()}

    serve({'facts': lambda: (tuple(detector.class_names), str(space.largest), str(space.smallest)), 'detect': detect,
           'time': lambda image, name: time_frame(detector, images[image], ExecutionPath.parse(name))[0]})


if __name__ == '__main__':
    main(*sys.argv[1:])
