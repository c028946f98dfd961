import ast
import subprocess

import pytest

from deadline_perception.core import child_command
from deadline_perception.core.child_command import code_command, module_command


@pytest.fixture(params=[True, False], ids=['safe path', 'Python 3.10'])
def folder(request, tmp_path, monkeypatch):
    """A folder with modules that must not be run; with and without Python's own way of leaving it out."""
    if request.param and not child_command._HAS_SAFE_PATH:
        pytest.skip('this Python has no -P')
    monkeypatch.setattr(child_command, '_HAS_SAFE_PATH', request.param)
    for name in ('yaml', 'json', 'runpy', 'numpy'):
        (tmp_path / f'{name}.py').write_text('raise SystemExit("the module of the folder was run")')
    return tmp_path


def test_code_and_modules_see_their_arguments_and_no_module_of_the_folder(folder):
    code = 'import json, sys, yaml, numpy; print(json.dumps(sys.argv[1:]))'
    for command, said in (
        (code_command(code, 'a b', '-c'), '["a b", "-c"]\n'),
        (module_command('json.tool', '--help'), 'usage: '),
    ):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout.startswith(said), done.stderr


def test_nobody_else_starts_python(repository):
    """Commands that name the interpreter are made in one place; the tie of `core/tied_process.py` is isolated."""
    package, found = repository / 'deadline_perception', []
    for file in package.rglob('*.py'):
        text = file.read_text(encoding='utf-8')
        for node in ast.walk(ast.parse(text if 'sys.executable' in text else '')):
            items = node.elts if isinstance(node, (ast.List, ast.Tuple)) else []
            if items and ast.unparse(items[0]) == 'sys.executable':
                found.append((file.relative_to(package).as_posix(), ast.unparse(node)))
    tied, restart = sorted(row for row in found if row[0] != 'core/child_command.py')
    assert (tied[0], restart[0]) == ('core/tied_process.py', 'tools/support/restart.py')
    assert "'-I'" in tied[1] and 'sys.orig_argv' in restart[1]
