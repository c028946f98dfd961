"""A network of your own: it says what can be decided, and computes one segment after the other.

This one finds bright regions, on the whole image or on a smaller one.   .venv/bin/python examples/custom_network.py
"""

import cv2
import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.execution_path import Operator, PathSpace, Segment
from deadline_perception.deadline_detector import DeadlineDetector
from deadline_perception.engines.eager import Eager
from deadline_perception.engines.segment_run import Network, SegmentRun

SPACE = PathSpace(
    (Operator('scale', 'scale', (0.25, 0.5, 1.0), 's'),),  # settings ascend in work
    (Segment('shrink', 'pre', 'scale', ('scale',)), Segment('regions', 'find', None, ('scale',))),
)


class BrightRegions(Network):
    path_space, class_names, result_type, engine = SPACE, ('bright',), Detections, Eager()
    config_name, network_hash, weights_hash, input_size, device = (
        'bright_regions',
        'v1',
        'v1',
        (480, 640),
        'cpu',
    )

    def start(self, image_bgr: np.ndarray, path) -> SegmentRun:
        return BrightRun(SPACE, path, image_bgr)


class BrightRun(SegmentRun):
    def __init__(self, space: PathSpace, path, image_bgr: np.ndarray) -> None:
        super().__init__(space, path)
        self.image = image_bgr

    def compute(self, name: str, key: str) -> None:
        if name == 'shrink':
            grey = cv2.cvtColor(self.image, cv2.COLOR_BGR2GRAY)
            self.small = cv2.resize(grey, None, fx=self.path['scale'], fy=self.path['scale'])
        else:
            count, _, self.regions, _ = cv2.connectedComponentsWithStats(
                (self.small > 200).astype(np.uint8)
            )

    def result(self) -> Detections:
        regions = self.regions[1:].astype(float)  # the first is the background
        left, top, width, height, area = regions[np.argsort(-regions[:, 4])].T  # best first
        boxes = np.stack((left, top, left + width, top + height), 1) / self.path['scale']
        return Detections(boxes, np.minimum(area / 1000.0, 1.0), np.zeros(len(boxes), int))


def main(budgets_ms: tuple[float, ...] = (50.0, 5.0, 1.0)) -> list:
    image_bgr = cv2.circle(np.zeros((480, 640, 3), np.uint8), (200, 100), 40, (255, 255, 255), -1)
    with DeadlineDetector(
        BrightRegions()
    ) as detector:  # a node takes it as model:=custom_network:make
        answers = [detector.detect(image_bgr, budget_ms) for budget_ms in budgets_ms]
    for answer in answers:
        print(
            answer.budget_ms,
            answer.path,
            answer.names,
            answer.boxes_xyxy_px.tolist(),
            answer.reason,
        )
    return answers


if __name__ == '__main__':
    main()
