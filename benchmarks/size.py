"""How large the project is: MB, lines by folder, tokens a code line, suite and extras, imports between them, private words.

    python benchmarks/size.py [REPOSITORY]

Counts files that git tracks. A code line is one with a token that is neither comment nor docstring; `tokens` are those
of Python's own tokenizer on such lines, without line ends. Anchors: rosbags 6.4, evo 6.2, torchvision 6.8, rclpy 7.0.
`test/test_size.py` holds the figures of the suite, the imports and the words as ceilings that may only fall.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path

from parts.harness import ROOT, show

from deadline_perception.tools.command_line import exit_status

PACKAGE = 'deadline_perception'
# What the suite is not: the add-ons, the nodes that play bags and schedule several networks, and the commands.
NO_SUITE = (
    'extras/',
    'tools/',
    'nodes/bag_',
    'nodes/camera_',
    'nodes/live_view',
    'nodes/qos_scheduler',
    'nodes/schedule_',
    'nodes/restamp',
)
# Words that a reader who knows the field would not meet elsewhere, and the field's own.
PRIVATE_WORDS = {
    r'\btold\b|hear_': 'logged, on_x',
    r'left out': 'dropped, without',
    r'\b_?[Ss]eats?\b': 'subscription',
    r'\blook\(': 'next_due, poll',
    r'\bbegun\b': 'progress, started',
    r'\blikely\b|\bpace': 'p90 factor, remaining',
    r'\b[Tt]urns\b|give_way|let_go': 'inter-process lock, yield, release',
    r'carried over|moved forward': 'coasted',
    r'kept back': 'reserve',
    r'[Tt]enant': 'co-runner',
    r'\bmargin': 'calibration factor',
    r'\blessons?\b|soft share|\btaught\b': 'distillation target, weight, distilled',
    r'cut regions': 'RoIAlign',
    r'\bspread\b': 'standard deviation',
    r'\bprices\b': 'cost model',
    r'half precision': 'float16',
    r'\bstretched|\boutlook|\bknots?\b|jobber': 'slowed down, operating region, callbacks',
    r'[Ss]tand.in\b': 'fallback result',
    r'\bbest case|late margin|agility': 'p10 factor, process noise',
    r'\b[Gg]rades?\b|\bgraded|raised level|task rests': 'calibrate contention, slack, inactive',
    r'V\+L|firm claim|[Rr]estless': 'mean AP, guarantee, noisy host',
    r'bound to fit': 'fits the budget',
    r'made.up|invented|made.once': 'fake, fixture',
    r'gives? up|given up': 'abort',
}
FOLDERS = ('deadline_perception', 'research', 'test', 'benchmarks', 'examples', 'docs')
_LAYOUT = {
    *(tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENDMARKER, tokenize.COMMENT),
}


@dataclass
class Size:
    """Of some files."""

    files: int = 0
    lines: int = 0
    code_lines: int = 0
    tokens: int = 0

    def figures(self) -> tuple[float, ...]:
        """Files, lines, code lines, tokens, and tokens a code line."""
        density = self.tokens / max(1, self.code_lines)
        return self.files, self.lines, self.code_lines, self.tokens, density

    def add(self, text: str, is_python: bool) -> None:
        """Takes in the content of a file."""
        self.files += 1
        self.lines += len(text.splitlines())
        if not is_python:
            return
        documented = docstring_lines(text)
        code = [
            token
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type not in _LAYOUT and token.start[0] not in documented
        ]
        self.code_lines += len({token.start[0] for token in code})
        self.tokens += len(code)


def docstring_lines(text: str) -> set[int]:
    """Numbers of the lines that docstrings begin on."""
    owners = (
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    )
    return {
        node.body[0].lineno for node in owners if ast.get_docstring(node, clean=False) is not None
    }


def sizes(root: Path) -> dict[str, Size]:
    """By folder, of Python and Markdown."""
    found = {folder: Size() for folder in FOLDERS}
    for file in tracked(root, *FOLDERS):
        if file.suffix in ('.py', '.md'):
            folder = file.relative_to(root).parts[0]
            found[folder].add(file.read_text(encoding='utf-8'), file.suffix == '.py')
    return found


def megabytes(root: Path) -> float:
    """Of all that git tracks."""
    return sum(file.stat().st_size for file in tracked(root)) / 1e6


def tracked(root: Path, *folders: str) -> list[Path]:
    """Files that git tracks, those of some folders alone where any are named."""
    command = ['git', 'ls-files', '-z', *folders]
    told = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return [root / name for name in told.split('\0') if (root / name).is_file()]


def suite_parts(files: dict[str, str]) -> list[str]:
    """Folders and modules of the suite at the top of the package."""
    return sorted({name.partition('/')[0] for name in files if is_of_suite(name)} - {'__init__.py'})


def is_of_suite(name: str) -> bool:
    """Whether a file, by its path below the package, belongs to the suite that one person owns."""
    return not name.startswith(NO_SUITE)


def package_files(root: Path) -> dict[str, str]:
    """Text of each Python file of the package, by its path below it."""
    package = root / PACKAGE
    return {
        file.relative_to(package).as_posix(): file.read_text(encoding='utf-8')
        for file in sorted(package.rglob('*.py'))
    }


def halves(files: dict[str, str]) -> dict[str, Size]:
    """The suite, and the extras with the commands."""
    found = {'suite': Size(), 'extras and commands': Size()}
    for name, text in files.items():
        found['suite' if is_of_suite(name) else 'extras and commands'].add(text, True)
    return found


def edges_to_extras(files: dict[str, str]) -> list[str]:
    """Files of the suite that import an extra, with what they import."""
    pattern = re.compile(rf'^\s*(?:from|import) ({PACKAGE}\.extras[\w.]*)', re.MULTILINE)
    return sorted(
        f'{name} imports {module}'
        for name, text in files.items()
        if is_of_suite(name)
        for module in pattern.findall(text)
    )


def private_words(files: dict[str, str]) -> dict[str, int]:
    """How often each pattern of PRIVATE_WORDS stands in the files."""
    return {
        pattern: sum(len(re.findall(pattern, text)) for text in files.values())
        for pattern in PRIVATE_WORDS
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        'repository', type=Path, nargs='?', default=ROOT, help='folder of a checkout'
    )
    root = parser.parse_args().repository
    files = package_files(root)
    rows = [(name, *size.figures()) for name, size in (sizes(root) | halves(files)).items()]
    heads = 'part | files | lines | code lines | tokens | tokens a code line'
    show(f'size of {root.resolve().name}, {megabytes(root):.2f} MB', heads, rows)
    edges = edges_to_extras(files)
    print(f'{len(edges)} imports from suite to extras', *edges, sep='\n  ')
    words = {pattern: count for pattern, count in private_words(files).items() if count}
    print(f'{sum(words.values())} private words')
    for pattern, count in sorted(words.items(), key=lambda word: -word[1]):
        print(f'  {count:4d} {pattern}  ->  {PRIVATE_WORDS[pattern]}')
    found = suite_parts(files)
    print(f'{len(found)} parts of the suite: {", ".join(found)}')


if __name__ == '__main__':
    sys.exit(exit_status(Path(__file__).name, main))
