from collections.abc import Callable

import pytest

from deadline_perception.tools.command_line import main


@pytest.fixture
def says(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs `deadline-perception WORDS`, each split at its spaces, which ends with 0; gives what it prints."""

    def run(*words: object) -> str:
        status = main(' '.join(map(str, words)).split())
        told = capsys.readouterr()
        assert status == 0, told.err
        return told.out

    return run


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs `deadline-perception WORDS`, which ends with 1; gives the one line that it says."""

    def run(*words: object) -> str:
        status, said = main([*map(str, words)]), capsys.readouterr().err
        assert status == 1 and said.count('\n') == 1, said
        return said

    return run
