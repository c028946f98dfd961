"""How large the project is: lines by folder, tokens a code line, share of comments, parts of the package.

    python benchmarks/size.py [REPOSITORY]

Counts files that git tracks. A code line is one with a token that is neither comment nor docstring; `tokens` are those
of Python's own tokenizer on such lines, without line ends. Anchors: rosbags 6.4, evo 6.2, torchvision 6.8, rclpy 7.0.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path

from parts.harness import ROOT, show

from deadline_perception.tools.command_line import exit_status

FOLDERS = ('deadline_perception', 'research', 'test', 'benchmarks', 'examples', 'docs')
_LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


@dataclass
class Size:
    """Of some files."""

    files: int = 0
    lines: int = 0
    code_lines: int = 0
    tokens: int = 0
    comments: int = 0

    def add(self, text: str, is_python: bool) -> None:
        """Takes in the content of a file."""
        self.files += 1
        self.lines += len(text.splitlines())
        if not is_python:
            return
        documented = docstring_lines(text)
        found = [
            token
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type not in _LAYOUT
        ]
        code = [
            token
            for token in found
            if token.type != tokenize.COMMENT and token.start[0] not in documented
        ]
        self.comments += sum(token.type == tokenize.COMMENT for token in found)
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
    told = subprocess.run(
        ['git', 'ls-files', '-z', *FOLDERS], cwd=root, capture_output=True, text=True, check=True
    )
    found = {folder: Size() for folder in FOLDERS}
    for name in filter(None, told.stdout.split('\0')):
        file = root / name
        if file.suffix in ('.py', '.md') and file.is_file():
            found[Path(name).parts[0]].add(file.read_text(encoding='utf-8'), file.suffix == '.py')
    return found


def parts(package: Path) -> list[str]:
    """Folders and modules at the top of the package."""
    return sorted(
        path.stem
        for path in package.iterdir()
        if path.stem != '__init__' and (path.suffix == '.py' or (path / '__init__.py').is_file())
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        'repository', type=Path, nargs='?', default=ROOT, help='folder of a checkout'
    )
    root = parser.parse_args().repository
    rows = []
    for folder, size in sizes(root).items():
        code = size.code_lines
        rows.append(
            (
                folder,
                size.files,
                size.lines,
                code,
                f'{size.tokens / code:.1f}' if code else '-',
                f'{100.0 * size.comments / size.lines:.1f}' if code else '-',
            )
        )
    show(
        f'size of {root.resolve().name}',
        ('folder', 'files', 'lines', 'code lines', 'tokens a code line', 'comments, % of lines'),
        rows,
    )
    found = parts(root / 'deadline_perception')
    folders = [name for name in found if (root / 'deadline_perception' / name).is_dir()]
    print(
        f'{len(folders)} folders and {len(found) - len(folders)} modules at the top: {", ".join(found)}'
    )


if __name__ == '__main__':
    sys.exit(exit_status(Path(__file__).name, main))
