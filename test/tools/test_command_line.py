"""The command `deadline-perception`, called as a person calls it."""

import errno
import os
import signal
import sys
import types
import warnings

import pytest
from python_run import run_python

from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.tools import command_line


@pytest.fixture
def command(monkeypatch):
    """Puts a function in the place of the sub-command `bag`, with one argument `--frames`."""

    def add_arguments(parser):
        parser.add_argument('--frames', type=int, default=3, help='how many')

    def install(run):
        module = types.ModuleType('bag', 'Stands in for a command.')
        module.add_arguments, module.run = add_arguments, run
        monkeypatch.setitem(sys.modules, 'deadline_perception.tools.bag', module)

    return install


def raiser(error):
    """A command that ends with an error."""

    def fail(args):
        raise error

    return fail


MORE_MEMORY = 'end other programs, and run the command again'
ALL = [
    *command_line.COMMANDS,
    *(f'{group} {name}' for group, (_, members) in command_line.GROUPS.items() for name in members),
]


# All name the network by the same option.
TAKE_A_MODEL = ('detect', 'watch', 'demo', 'label', 'profile', 'evaluate', 'train')


@pytest.mark.parametrize('name', ALL)
def test_every_command_explains_itself(name, capsys):
    with pytest.raises(SystemExit, match='^0$'):
        command_line.main([*name.split(), '--help'])
    text = capsys.readouterr().out
    assert text.startswith(f'usage: deadline-perception {name}')
    sentence = next(line for line in text.splitlines()[1:] if line and not line.startswith(' '))
    assert len(sentence) > 20, 'one sentence on what the command does'
    assert not any(f'default: {none})' in ' '.join(text.split()) for none in ('None', 'False', ''))
    assert name not in TAKE_A_MODEL or '--model' in text


def test_help_lists_all_commands_without_loading_them(repository):
    code = (
        'import sys\nfrom deadline_perception.tools.command_line import main\n'
        'try:\n    main(["--help"])\nfinally:\n    print("torch" in sys.modules or "numpy" in sys.modules)'
    )
    shown = run_python('-c', code, cwd=repository)
    assert shown.returncode == 0, shown.stderr
    unwrapped = ''.join(shown.stdout.split())  # lines break at hyphens, too
    assert all(name.split()[-1] in unwrapped for name in ALL)
    assert shown.stdout.splitlines()[-1] == 'False'


FORGED = 'class is \x1b]0;title\x07\x9b31m\u202e, their log ends with:\n  \x1b[2Jlast line'
HARMLESS = 'class is \\x1b]0;title\\x07\\x9b31m\\u202e, their log ends with:\n  \\x1b[2Jlast line'


@pytest.mark.parametrize(
    'error, said',
    [
        (ValueError('frames is -1, expected at least 1'), 'frames is -1, expected at least 1'),
        (FileNotFoundError('no such bag'), 'no such bag'),
        (OSError('no bag'), 'no bag'),
        (DeadlinePerceptionError('profile of another network'), 'profile of another network'),
        (
            OSError(errno.ENOSPC, 'No space left on device', 'state.safetensors'),
            'state.safetensors cannot be written: no space left on device; free some, or name another place, and run the '
            'command again',
        ),
        (
            OSError(errno.EISDIR, 'Is a directory', 'folder'),
            'folder cannot be used: is a directory; expected a file or folder that can be read, or written to',
        ),
        (
            ModuleNotFoundError("No module named 'of_none'", name='of_none'),
            'of_none is not installed: pip install "deadline_perception[all]"',
        ),
        (MemoryError(), f'there is not enough memory; {MORE_MEMORY}'),
        (
            MemoryError('Unable to allocate 9 GiB'),
            f'there is not enough memory (Unable to allocate 9 GiB); {MORE_MEMORY}',
        ),
        # Nothing that a terminal would obey is printed.
        *((kind(FORGED), HARMLESS) for kind in (ValueError, OSError, DeadlinePerceptionError)),
    ],
)
def test_expected_errors_are_told_without_a_traceback(command, capsys, error, said):
    command(raiser(error))
    assert command_line.main(['bag']) == 1
    assert capsys.readouterr().err == f'deadline-perception bag: {said}\n'


def test_a_warning_is_one_printable_line(command, monkeypatch):
    monkeypatch.setattr(warnings, 'formatwarning', None)
    command(lambda args: 0)
    assert command_line.main(['bag']) == 0
    said = warnings.formatwarning(UserWarning(f'{FORGED}.jpg'), UserWarning, 'coco.py', 1)
    assert said == f'deadline-perception bag: {" ".join(HARMLESS.split())}.jpg\n'


def test_unexpected_error_keeps_its_traceback_and_interruption_ends_quietly(command):
    command(raiser(KeyError('programming error')))
    with pytest.raises(KeyError, match='programming error'):
        command_line.main(['bag'])
    command(raiser(KeyboardInterrupt()))
    assert command_line.main(['bag']) == 130


def test_ctrl_c_while_a_command_loads_ends_it_without_a_traceback():
    code = (
        'import importlib, signal\nfrom deadline_perception.tools import command_line\n'
        'importlib.import_module = lambda name: signal.raise_signal(signal.SIGINT)\ncommand_line.main(["bag"])'
    )
    done = run_python('-c', code)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, '')


def test_says_its_version(capsys, repository):
    with pytest.raises(SystemExit, match='^0$'):
        command_line.main(['--version'])
    said = capsys.readouterr().out.strip()
    version = said.removeprefix('deadline-perception ')
    assert f'<version>{version}</version>' in (repository / 'package.xml').read_text()


def test_a_name_that_the_terminal_cannot_show_ends_no_command(tmp_path):
    """The work was done, and the last line ended it with status 1."""
    said = 'from deadline_perception.tools.command_line import exit_status\nexit(exit_status("x", lambda: print("\u732b")))'
    done = run_python('-c', said, env={**os.environ, 'PYTHONIOENCODING': 'latin-1'})
    assert (done.returncode, done.stdout) == (0, '\\u732b\n')


@pytest.mark.parametrize(
    'module, extra',
    [('rosbags.highlevel', 'bags'), ('jinja2', 'report'), ('torch', 'torch'), ('tomli', 'all')],
)
def test_a_missing_package_is_named_with_the_smallest_extra_that_has_it(
    command, refusal, monkeypatch, module, extra
):
    needed = [
        'numpy<3,>=1.26',
        'torch<3,>=2.4; extra == "torch"',
        'torch<3,>=2.4; extra == "train"',
        'Jinja2<4,>=3.1; extra == "report"',
        'rosbags<0.12,>=0.11.9; extra == "bags"',
    ]
    monkeypatch.setattr('importlib.metadata.requires', lambda _: needed)
    command(raiser(ModuleNotFoundError(f'No module named {module!r}', name=module)))
    assert f'pip install "deadline_perception[{extra}]"' in refusal('bag')
