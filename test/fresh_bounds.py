import math

from deadline_perception.timing.calibration import BoundCalibrator
from deadline_perception.timing.part_bound import PartBound
from deadline_perception.timing.recent_times import RecentTimes


def fresh_bound(log_factor: float = 0.0, width: float = math.log(8.0)) -> PartBound:
    """One that few of a hundred frames shall exceed, and at first so much above what is expected."""
    return PartBound(BoundCalibrator(0.01, 0.05, width, log_factor), RecentTimes(0.01))
