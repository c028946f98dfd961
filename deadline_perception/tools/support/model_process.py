"""Work on a detector's file in a process of its own: a file that hangs or ends it spoils nothing else, and what
the process takes is the file's own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from deadline_perception.core.child_command import module_command
from deadline_perception.core.errors import DeadlinePerceptionError, printable
from deadline_perception.core.tied_process import start_tied, stop_tied
from deadline_perception.extras.external_models.exported.model_error import ModelError

_ORDER, _ARRAYS, _ANSWER = 'order.json', 'arrays.npz', 'answer.json'
_MOST_LETTERS = 1500


def ask(
    module: str,
    order: Mapping[str, object],
    arrays: Mapping[str, Sequence[np.ndarray]],
    name: str,
    limit_s: float,
) -> dict:
    """What a module of `tools` answers, started as a process; blocks until it has.

    Args:
        module: name of the module, whose `__main__` calls `serve`.
        order: what to do, of records, files, and values that JSON holds; sequences arrive as tuples, here and there.
        arrays: images and such, by their kind.
        name: of the detector, for errors.
        limit_s: how long it may take.

    Raises:
        ModelError: the work failed, took too long, or ended its process; says which.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / _ORDER).write_text(json.dumps(order, default=_plain), encoding='utf-8')
        np.savez(
            place / _ARRAYS,
            **{
                f'{kind}.{number}': array
                for kind, members in arrays.items()
                for number, array in enumerate(members)
            },
        )
        process = start_tied(
            module_command(f'deadline_perception.tools.{module}', folder),  # killed with this one
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        try:
            said = process.communicate(timeout=limit_s)[1]
        except subprocess.TimeoutExpired:
            raise ModelError(
                f'{name} gave no result within {limit_s:.0f} s, expected a file that is loaded sooner and '
                f'ends'
            ) from None
        finally:
            stop_tied(process)
            process.stderr.close()
        if process.returncode == -signal.SIGXCPU:
            raise ModelError(
                f'{name} took all the processor time that it may take, expected a file that is loaded '
                f'sooner and ends'
            )
        answer = place / _ANSWER
        if process.returncode or not answer.is_file():
            lines = said.decode(errors='replace').strip().splitlines()
            raise ModelError(
                f'{name} ended the process that loaded it (status {process.returncode}'
                + (f', {printable(lines[-1])[:200]})' if lines else ')')
            )
        content = _read(answer)
    if 'error' in content:
        raise ModelError(content['error'])
    return content


def serve(work: Callable[[dict, dict[str, list[np.ndarray]]], Mapping[str, object]]) -> None:
    """The work of the process: reads its order and arrays, writes what `work` makes of them, or why it cannot."""
    place = Path(sys.argv[1])
    arrays: dict[str, list[np.ndarray]] = defaultdict(list)
    with np.load(place / _ARRAYS) as content:
        for name in content.files:
            arrays[name.partition('.')[0]].append(content[name])
    try:
        answer = work(_read(place / _ORDER), arrays)
    except ModuleNotFoundError as error:
        answer = {'error': f'{error.name} is not installed: pip install "deadline_perception[all]"'}
    except (
        DeadlinePerceptionError,
        ValueError,
        OSError,
        RuntimeError,
        MemoryError,
        ImportError,
    ) as error:
        answer = {'error': printable(error, _MOST_LETTERS) or type(error).__name__}
    (place / _ANSWER).write_text(json.dumps(answer, default=_plain), encoding='utf-8')


def _plain(value: object) -> object:
    """A record or a file in values that JSON holds."""
    return str(value.absolute()) if isinstance(value, Path) else asdict(value)


def _read(file: Path) -> dict:
    return _with_tuples(json.loads(file.read_text(encoding='utf-8')))


def _with_tuples(value: Any) -> Any:
    """The same with tuples for lists, as records have them."""
    if isinstance(value, dict):
        return {name: _with_tuples(part) for name, part in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value
