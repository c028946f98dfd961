"""The suite stays small enough for one owner: ceilings that may only fall (`benchmarks/size.py` prints the figures)."""

from pathlib import Path
from types import ModuleType

import pytest

MOST_TOKENS = 117_748
MOST_TOKENS_A_LINE = 8.0
MOST_PRIVATE_WORDS = 28
MOST_PARTS = 9  # folders and modules at its top
MOST_MEGABYTES = 20.0
MOST_LINES = {'test': 28_915, 'benchmarks': 7_680, 'research': 9_488}
REMEDY = 'what comes in is paid for by what goes (CONTRIBUTING.md, Rules)'


@pytest.fixture(scope='module')
def size(load_benchmark) -> ModuleType:
    return load_benchmark('size')


@pytest.fixture(scope='module')
def files(size: ModuleType, repository: Path) -> dict[str, str]:
    return size.package_files(repository)


def test_suite_grows_in_neither_tokens_nor_density(size, files):
    mine = {name: text for name, text in files.items() if size.is_of_suite(name)}
    suite = size.halves(mine)['suite']
    assert suite.tokens <= MOST_TOKENS, REMEDY
    assert suite.tokens / suite.code_lines <= MOST_TOKENS_A_LINE


def test_suite_has_few_parts_imports_no_extra_and_has_fewer_private_words(size, files):
    assert len(size.suite_parts(files)) <= MOST_PARTS
    assert size.edges_to_extras(files) == []
    assert sum(size.private_words(files).values()) <= MOST_PRIVATE_WORDS


def test_what_is_fetched_and_stands_beside_the_package_grows_no_more(size, repository):
    for name, most in MOST_LINES.items():
        files = [file for file in size.tracked(repository, name) if file.suffix in ('.py', '.md')]
        lines = sum(len(file.read_text('utf-8').splitlines()) for file in files)
        assert lines <= most, f'{name}: {REMEDY}'
    assert size.megabytes(repository) <= MOST_MEGABYTES
