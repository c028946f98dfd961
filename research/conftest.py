"""What tests of several papers' commands use."""

from collections.abc import Callable
from types import ModuleType

import pytest

from deadline_perception.tools.command_line import run_alone


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a script with arguments, which ends with 1; gives the one line that it says."""

    def run(command: ModuleType, *words: object) -> str:
        status, said = run_alone(command, [*map(str, words)]), capsys.readouterr().err
        assert status == 1 and said.count('\n') == 1, said
        return said

    return run
