"""A network for a real node process that hangs, or finds NaN, while a file exists."""

import os
import time
from pathlib import Path

import numpy as np
from invented_networks import SINGLE, InventedNetwork, InventedRun

from deadline_perception.core.detections import Detections

FLAG = 'HANG_WHILE_THIS_FILE_EXISTS'
NAN_FLAG = 'NAN_WHILE_THIS_FILE_EXISTS'


class HangingRun(InventedRun):
    """Hangs in every segment while the file that the environment names exists."""

    def compute(self, name, key):
        while os.environ.get(FLAG) and Path(os.environ[FLAG]).exists():
            time.sleep(0.01)

    def result(self):
        if os.environ.get(NAN_FLAG) and Path(os.environ[NAN_FLAG]).exists():
            return Detections(np.array([[0.0, 0.0, 9.0, 9.0]]), np.array([np.nan]), np.array([0]))
        return super().result()


def make(device='cpu'):
    return InventedNetwork(SINGLE, device, run_type=HangingRun)
