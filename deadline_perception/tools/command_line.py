"""The command `deadline-perception`: finds the sub-command, runs it, and converts expected errors into one line."""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from deadline_perception.core.errors import DeadlinePerceptionError, printable, printable_lines

_PROGRAM = 'deadline-perception'
_LONGEST_WARNING = 2000  # characters
COMMANDS = {
    'detect': 'find objects in a photo, folder, video, bag or webcam, and draw them',
    'watch': 'the same, live in the browser',
    'demo': 'play a drive through the running nodes and write a report',
    'doctor': 'say what this machine has and what is missing',
    'profile': 'measure how long every part of a network takes on this device',
    'adopt': 'measure own detectors (ONNX, torchvision) and write the set that the detector node launches',
    'label': 'label a folder, video, bag or COCO file with detectors, as data to train on',
    'train': 'train a multi-path detector',
    'evaluate': 'average precision of execution paths on annotated images',
    'report': 'turn a recorded bag into tables and plots',
    'bag': 'turn a driving sequence into an mcap bag',
}
GROUPS = {  # of what the papers need besides
    'network': (
        'make and train networks of other kinds',
        {
            'elastic': 'make a network of torchvision or your own run at any share of its neurons, without training',
            'train-classifier': 'train the nested classifier of crops',
        },
    ),
}


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Says defaults only where they say something."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        says_nothing = action.default in (None, [], '') or action.default is False
        return action.help if says_nothing else super()._get_help_string(action)


class _Version(argparse.Action):
    """Looks the version up only where it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f'{_PROGRAM} {version()}')
        parser.exit()


def version() -> str:
    """Of the package: what is installed, else what the source tree says."""
    from importlib import metadata
    from xml.etree import ElementTree

    from deadline_perception.core.share_folder import share_folder

    manifest = share_folder() / 'package.xml'
    if manifest.is_file():
        return ElementTree.parse(manifest).getroot().findtext('version') or 'unknown'
    try:
        return metadata.version('deadline_perception')
    except metadata.PackageNotFoundError:
        return 'unknown'


def main(arguments: list[str] | None = None) -> int:
    """Runs one sub-command; returns its exit status: 0 done, 1 failed, 2 wrong arguments."""
    arguments = sys.argv[1:] if arguments is None else arguments
    wanted = [word for word in arguments if not word.startswith('-')][:2]
    parsed: list[argparse.Namespace] = []
    status = exit_status(
        ' '.join((_PROGRAM, *wanted[:1])), lambda: parsed.append(_parse(arguments, wanted))
    )
    return exit_status(parsed[0].name, lambda: parsed[0].run(parsed[0])) if parsed else status


def _parse(arguments: list[str], wanted: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=_PROGRAM,
        description='Object detection that meets a moving deadline, and says how it knows.',
    )
    parser.add_argument('--version', action=_Version, nargs=0, help='say which version this is')
    commands = _add_commands(parser, COMMANDS, wanted[:1], _PROGRAM)
    for group, (summary, members) in GROUPS.items():
        sub = commands.add_parser(
            group, help=f'{summary}: {", ".join(members)}', description=f'{summary}.'
        )
        _add_commands(
            sub, members, wanted[1:] if wanted[:1] == [group] else [], f'{_PROGRAM} {group}'
        )
    return parser.parse_args(arguments)


def _add_commands(
    parser: argparse.ArgumentParser, commands: dict[str, str], wanted: list[str], name: str
) -> argparse._SubParsersAction:
    """Adds commands; only the one that is wanted is loaded, so that help needs no torch."""
    added = parser.add_subparsers(required=True, metavar='COMMAND')
    for command, summary in commands.items():
        sub = added.add_parser(command, help=summary, formatter_class=_Help)
        if [command] == wanted:
            with _ended_by_ctrl_c():
                module = importlib.import_module(module_of(command))
            sub.description = module.__doc__
            module.add_arguments(sub)
            sub.set_defaults(run=module.run, name=f'{name} {command}')
    return added


@contextmanager
def _ended_by_ctrl_c() -> Iterator[None]:
    """Ctrl-C ends the process at once while the block runs: libraries that load would show it as an error of theirs."""
    if (
        signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):  # somebody ignores or handles it
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def module_of(command: str) -> str:
    """Where a command lies, such as `train-classifier`."""
    return f'deadline_perception.tools.{command.replace("-", "_")}'


def run_alone(command: ModuleType, arguments: Sequence[str] | None = None) -> int:
    """Run a program of its own that is written as a command is; return its exit status.

    Args:
        command: module with `add_arguments` and `run`.
        arguments: None: those of the process.
    """
    name = Path(command.__file__).stem
    parser = argparse.ArgumentParser(
        prog=f'{name}.py', description=command.__doc__, formatter_class=_Help
    )
    command.add_arguments(parser)
    args = parser.parse_args(arguments)
    return exit_status(name, lambda: command.run(args))


def exit_status(name: str, run: Callable[[], int | None]) -> int:
    """Runs a program; returns what it returns (0 for None), or 1 when an expected error ends it, which it prints.

    Warnings are one line each. Whatever of a file they and the error repeat, nothing that a terminal would obey is
    printed.

    Args:
        name: of the program, put before the error.
        run: does all the work.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, io.TextIOWrapper
        ):  # a name that the terminal cannot show ends nothing
            stream.reconfigure(errors='backslashreplace')
    warnings.formatwarning = lambda message, *rest: (
        f'{name}: {printable(message, _LONGEST_WARNING)}\n'
    )
    try:
        return run() or 0
    except (
        ValueError,
        OSError,
        MemoryError,
        ModuleNotFoundError,
        DeadlinePerceptionError,
    ) as error:
        print(f'{name}: {printable_lines(_words(error))}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _words(error: Exception) -> str:
    """What went wrong; the system's own words with the name of the file, which they leave out or put last."""
    if isinstance(error, OSError) and error.strerror:
        file = error.filename2 or error.filename or 'a file'
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return (
                f'{file} cannot be written: {error.strerror.lower()}; free some, or name another place, and run '
                f'the command again'
            )
        return (
            f'{file} cannot be used: {error.strerror.lower()}; expected a file or folder that can be '
            f'read, or written to'
        )
    if isinstance(error, ModuleNotFoundError):
        extra = extra_with(error.name or '')
        return f'{error.name} is not installed: pip install "deadline_perception[{extra}]"'
    if isinstance(error, MemoryError):
        needed = f' ({error})' if str(error) else ''
        return f'there is not enough memory{needed}; end other programs, and run the command again'
    return str(error)


def extra_with(module: str) -> str:
    """The first extra of the package that installs a module; `all`, 5 GB, where none is known to."""
    from importlib import metadata

    wanted = re.compile(rf'{re.escape(module.partition(".")[0])}\b.*extra == .(\w+)', re.IGNORECASE)
    try:
        found = map(wanted.match, metadata.requires('deadline_perception') or [])
    except metadata.PackageNotFoundError:
        return 'all'
    return next((match[1] for match in found if match), 'all')


if __name__ == '__main__':
    sys.exit(main())
