"""Networks for a real node process that hang while a file exists, one of them with a class in place of boxes."""
from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
from invented_networks import SINGLE, InventedNetwork, InventedRun

from deadline_perception.detector.detections import Classification

FLAG = 'HANG_WHILE_THIS_FILE_EXISTS'


class HangingNetwork(InventedNetwork):
    """Hangs in its only segment while the file that the environment names exists."""

    def start(self, image_bgr, path):
        return HangingRun(self, image_bgr, path)


class HangingRun(InventedRun):
    def compute(self, name, key):
        while os.environ.get(FLAG) and Path(os.environ[FLAG]).exists():
            time.sleep(0.01)


class HangingClassifier(HangingNetwork):
    """The same with a class as its result."""

    result_type = Classification

    def start(self, image_bgr, path):
        return ClassifierRun(self, image_bgr, path)


class ClassifierRun(HangingRun):
    def result(self):
        return Classification(np.array([0.25, 0.75, 0.01]))


def make(device='cpu'):
    return HangingNetwork(SINGLE, device)


def make_classifier(device='cpu'):
    return HangingClassifier(SINGLE, device, ('bus', 'tram', 'car'))
