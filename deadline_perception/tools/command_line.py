"""The command `deadline-perception`: finds the sub-command, runs it, and turns expected errors into one line."""
from __future__ import annotations

import argparse
import importlib
import sys

from deadline_perception.errors import DeadlinePerceptionError

COMMANDS = {
    'demo': 'play a drive through the running nodes and write a report',
    'doctor': 'say what this machine has and what is missing',
    'profile': 'measure how long every part of a network takes on this device',
    'sweep': 'measure how the time of single layers changes with their size, and predict it from few measurements',
    'bag': 'turn a driving sequence into an mcap bag',
    'report': 'turn a recorded bag into tables and plots',
    'construct': 'grow a network that fits a deadline and a memory limit on this device',
    'train': 'train a multi-path detector',
    'evaluate': 'average precision of execution paths on annotated images',
}


def main(arguments: list[str] | None = None) -> int:
    """Runs one sub-command; returns its exit status: 0 done, 1 failed, 2 wrong arguments."""
    parser = argparse.ArgumentParser(prog='deadline-perception',
                                     description='Object detection that meets a moving deadline, and says how it knows.')
    subparsers = parser.add_subparsers(dest='command', required=True, metavar='COMMAND')
    arguments = sys.argv[1:] if arguments is None else arguments
    wanted = next((word for word in arguments if not word.startswith('-')), None)
    for name, summary in COMMANDS.items():
        sub = subparsers.add_parser(name, help=summary, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
        if name == wanted:
            module = importlib.import_module(f'deadline_perception.tools.{name}')
            sub.description = module.__doc__
            module.add_arguments(sub)
            sub.set_defaults(run=module.run)
    parsed = parser.parse_args(arguments)
    try:
        return parsed.run(parsed)
    except (ValueError, OSError, DeadlinePerceptionError) as error:
        print(f'deadline-perception {parsed.command}: {_words(error)}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _words(error: Exception) -> str:
    """What went wrong; the system's own words with the name of the file, which they leave out or put last."""
    if isinstance(error, OSError) and error.strerror:
        return (f'{error.filename or "a file"} cannot be used: {error.strerror.lower()}; expected a file or folder that '
                f'can be read, or written to')
    return str(error)


if __name__ == '__main__':
    sys.exit(main())
