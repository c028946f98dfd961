"""Imports tried in another process: what they report, and that their failures stay there."""

import pytest

from deadline_perception.tools.support import import_probe
from deadline_perception.tools.support.import_probe import ImportProbe


@pytest.mark.parametrize(
    'code, error',
    [
        (
            'import no_such_module_anywhere',
            "ModuleNotFoundError: No module named 'no_such_module_anywhere'",
        ),
        ('import sys; sys.exit(3)', 'the process ended with status 3'),
        ('import os; os.kill(os.getpid(), 11)', 'the process ended with status -11'),
        ('pass', 'the process reported nothing'),
        ('print("no JSON")', 'the process reported nothing'),
    ],
)
def test_failure_is_named(code, error):
    probe = ImportProbe(code)
    assert probe.error == error
    assert probe.facts == {}


def test_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(import_probe, '_LIMIT_S', 0.2)
    probe = ImportProbe('import time; time.sleep(600)')
    assert probe.error == 'no answer within 0.2 s'
