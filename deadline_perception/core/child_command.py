"""Command lines of Python programs that this one starts: none of them imports what lies in the working folder.

`python -m` and `python -c` look for modules in the working folder first. There, a data set that came with a `torch.py`
would be run.
"""

from __future__ import annotations

import sys

_HAS_SAFE_PATH = sys.version_info >= (3, 11)
_FORGET_FOLDER = (
    'import sys\ndel sys.path[0]\n'  # the working folder, as `python -c` puts it; sys is built in
)
_RUN_MODULE = (
    f'{_FORGET_FOLDER}import runpy\ndel sys.argv[0]\n'
    'runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)'
)


def module_command(module: str, *arguments: str) -> list[str]:
    """Program and arguments that run a module, as `python -m` does."""
    if _HAS_SAFE_PATH:
        return [sys.executable, '-P', '-m', module, *arguments]
    return [sys.executable, '-c', _RUN_MODULE, module, *arguments]


def code_command(code: str, *arguments: str) -> list[str]:
    """Program and arguments that run some lines of Python, as `python -c` does."""
    if _HAS_SAFE_PATH:
        return [sys.executable, '-P', '-c', code, *arguments]
    return [
        sys.executable,
        '-c',
        f'{_FORGET_FOLDER}exec(compile({code!r}, "<string>", "exec"))',
        *arguments,
    ]
