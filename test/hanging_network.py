"""A network for a real node process that hangs while a file exists."""
from __future__ import annotations

import os
import time
from pathlib import Path

from invented_networks import SINGLE, InventedNetwork, InventedRun

FLAG = 'HANG_WHILE_THIS_FILE_EXISTS'


class HangingNetwork(InventedNetwork):
    """Hangs in its only segment while the file that the environment names exists."""

    def start(self, image_bgr, path):
        return HangingRun(self, image_bgr, path)


class HangingRun(InventedRun):
    def compute(self, name, key):
        while os.environ.get(FLAG) and Path(os.environ[FLAG]).exists():
            time.sleep(0.01)


def make(device='cpu'):
    return HangingNetwork(SINGLE, device)

