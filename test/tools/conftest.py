from collections.abc import Callable

import pytest

from deadline_perception.tools.command_line import main


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs `deadline-perception WORDS`, which ends with 1; gives the one line that it says."""

    def run(*words: object) -> str:
        status, said = main([*map(str, words)]), capsys.readouterr().err
        assert status == 1 and said.count('\n') == 1, said
        return said

    return run
