"""A run whose detector refuses ends at once, with the detector's own reason."""
from __future__ import annotations

import subprocess
import sys


def test_the_run_ends_with_the_reason_when_the_detector_cannot_be_configured(tmp_path):
    (tmp_path / 'drive.mcap').touch()
    done = subprocess.run([sys.executable, '-m', 'deadline_perception.nodes.bringup', '--bag',
                           str(tmp_path / 'drive.mcap'), '--model', str(tmp_path / 'missing.safetensors')],
                          capture_output=True, text=True, timeout=200)
    assert done.returncode == 1
    assert 'detector will not get ready: cannot be configured: weights file' in done.stderr
    assert 'missing.safetensors does not exist' in done.stderr
    assert done.stderr.splitlines()[-1] == 'stopping: readiness failed: exit status 1'
