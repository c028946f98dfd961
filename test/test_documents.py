"""README, docs, model cards and CONTRIBUTING: short where promised, and every link, command and argument in them
exists."""

import argparse
import importlib
import inspect
import re
import shlex
from pathlib import Path

import pytest

from deadline_perception.decision.policy import Quality
from deadline_perception.nodes.launch_arguments import ARGUMENTS
from deadline_perception.timing.time_model import Forecast
from deadline_perception.tools.command_line import COMMANDS, GROUPS, module_of

ROOT = Path(__file__).parents[1]
DOCUMENTS = {
    str(file.relative_to(ROOT)): file.read_text(encoding='utf-8')
    for pattern in ('*.md', 'docs/*.md', 'models/*.md', 'benchmarks/*.md', 'research/**/*.md')
    for file in sorted(ROOT.glob(pattern))
}
each_document = pytest.mark.parametrize('name', DOCUMENTS)


def anchors(text: str) -> set[str]:
    """Names of a document's headings in links, as GitHub makes them."""
    headings = re.findall(r'^#+ (.+)$', text.lower(), re.M)
    return {re.sub(r'[^\w\- ]', '', heading).replace(' ', '-') for heading in headings}


def commands(text: str) -> list[list[str]]:
    """Words behind `deadline-perception`, or its module, of every command in a block of shell."""
    lines = [
        line
        for block in re.findall(r'^ *```bash\n(.*?)```', text, re.M | re.S)
        for line in block.replace('\\\n', ' ').splitlines()
    ]
    form = re.compile(r'(?:deadline-perception|tools\.command_line) (?!deadline-perception)(.+)')
    found = map(form.search, lines)
    return [shlex.split(match[1], comments=True) for match in found if match]


@each_document
def test_links_scripts_and_results_exist(name):
    for link in re.findall(r'\]\(([^)\s]+)\)', DOCUMENTS[name]):
        target, _, anchor = link.partition('#')
        if '://' in target:
            continue
        file = ((ROOT / name).parent / target).resolve() if target else ROOT / name
        assert file.exists(), f'{name}: {link}'
        assert not anchor or anchor in anchors(file.read_text(encoding='utf-8')), f'{name}: {link}'
    for file in re.findall(r'\b(?:benchmarks|research)/[\w/]+\.\w+', DOCUMENTS[name]):
        assert (ROOT / file).is_file(), f'{name}: {file}'


@each_document
def test_commands_and_launch_arguments_are_accepted(name):
    named = set(re.findall(r'`deadline-perception ([\w-]+)', DOCUMENTS[name]))
    assert named <= COMMANDS.keys() | GROUPS.keys()
    for command, *words in commands(DOCUMENTS[name]):
        members = COMMANDS
        if command in GROUPS:
            members, (command, *words) = GROUPS[command][1], words
        assert command in members, f'{name}: {command}'
        parser = argparse.ArgumentParser()
        importlib.import_module(module_of(command)).add_arguments(parser)
        parser.parse_args(words)
    of_launch = (ROOT / 'launch' / 'perception.launch.py').read_text(encoding='utf-8')
    assert set(re.findall(r'(\w+):=', DOCUMENTS[name])) <= {
        *(argument.name for argument in ARGUMENTS),
        *re.findall(r"Argument\('(\w+)'", of_launch),  # its own
    }


def test_a_policy_can_call_what_contributing_names():
    for owner, protocol in {'forecast': Forecast, 'quality': Quality}.items():
        for name, words in re.findall(rf'`{owner}\.(\w+)\((.*?)\)`', DOCUMENTS['CONTRIBUTING.md']):
            inspect.signature(getattr(protocol, name)).bind(None, *words.split(', '))


def test_the_tables_of_the_results_are_those_of_the_files(load_benchmark):
    results_page = load_benchmark('results_page')
    for file in results_page.TABLES:
        page = file.read_text(encoding='utf-8')
        assert results_page.rewritten(file) == page, 'run `python benchmarks/results_page.py`'
    assert len(DOCUMENTS['docs/results.md'].splitlines()) <= 150


def test_the_readme_is_short_and_documents_name_commands():
    assert len(DOCUMENTS['README.md'].splitlines()) <= 150
    assert len(commands(DOCUMENTS['README.md'])) >= 5  # otherwise nothing was looked at
