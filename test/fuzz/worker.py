"""Fuzzes one reader by coverage until its time is over; `run.py` starts it.

Python of this package and of the libraries that read for it is instrumented; what OpenCV, FFmpeg and OpenVINO do in C++
is not seen. A finding is kept and fuzzing goes on; a crash, a hang or a lack of memory ends the process, and libFuzzer
leaves the input as `crash-`, `timeout-` or `oom-`.
"""

from __future__ import annotations

import dataclasses
import gc
import os
import random
import resource
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

os.environ.setdefault('OPENCV_LOG_LEVEL', 'SILENT')
os.environ.setdefault('OPENCV_FFMPEG_LOGLEVEL', '-8')
for name in ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS'):
    os.environ.setdefault(name, '1')

import atheris  # noqa: E402
import cv2  # noqa: E402
import torch  # noqa: E402

INSTRUMENTED = ['deadline_perception', 'rosbags', 'mcap', 'yaml', 'safetensors']
MOST_GROWTH_MB, LONGEST_S, LONGEST_BYTES = 256, 10, 8192
_LONGEST_WAIT_S = 120  # for one input on a busy machine
_PACKAGE = f'{os.sep}deadline_perception{os.sep}'

with atheris.instrument_imports(include=INSTRUMENTED):
    from fuzz.mutation import mutated
    from fuzz.readers import READERS, REFUSALS, Reader
    from fuzz.seeds import seeds


class Findings:
    """Inputs that ended in something else than values or a refusal, one for each place where that was raised."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known = {file.stem for file in folder.glob('*.txt')}

    def add(self, content: bytes, error: BaseException) -> None:
        """Keeps the input and the traceback, if the place is new."""
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if _PACKAGE in frame.filename] or frames
        place = f'{Path(own[-1].filename).stem}-{own[-1].lineno}' if own else 'reader'
        name = f'{type(error).__name__}-{place}'
        if name in self._known:
            return
        self._known.add(name)
        (self._folder / f'{name}.input').write_bytes(content)
        (self._folder / f'{name}.txt').write_text(
            ''.join(traceback.format_exception(error)), 'utf-8', 'backslashreplace'
        )


def trial(reader: Reader, place: Path, findings: Findings) -> Callable[[bytes], None]:
    """What is done with every input."""
    file = place / reader.name

    def try_one(content: bytes) -> None:
        written = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.write(written, content)
        os.close(written)
        began_s = time.process_time()
        try:
            reader.read(file)
        except REFUSALS:
            pass
        except Exception as error:
            findings.add(content, error)
        if time.process_time() - began_s > LONGEST_S:
            findings.add(content, TimeoutError(f'took more than {LONGEST_S} s of the processor'))

    return try_one


def mutator(form: str) -> Callable[[bytes, int, int], bytes]:
    """libFuzzer's own mutations, and those that keep the form."""

    def mutate(content: bytes, most: int, seed: int) -> bytes:
        def change(part: bytes) -> bytes:
            return atheris.Mutate(part, min(most, len(part) + 64))

        return mutated(form, content, random.Random(seed), change)[:most]

    return mutate


def _remember_code() -> None:
    """rosbags compiles code and makes a dataclass for every definition of a message; the same text gives the same code."""
    from rosbags.serde import cdr, ros1, utils

    compile_once = lru_cache(maxsize=4096)(lambda text: utils.compile_lines(text.split('\n')))
    for module in (cdr, ros1):
        module.compile_lines = lambda lines: compile_once('\n'.join(lines))
    code = lru_cache(maxsize=4096)(lambda text: compile(text, '<dataclass>', 'exec'))
    dataclasses.exec = lambda text, *names: exec(code(text), *names)  # hides the builtin there


def fuzz(name: str, folder: Path, place: Path, seconds: int, one: str = '') -> None:
    """Fuzzes in this process, which ends with it.

    Args:
        name: of the reader.
        folder: of what is known of it.
        place: for its files, empty, in memory.
        seconds: to go on for.
        one: input that alone is tried; empty: those of the corpus and the seeds, and what becomes of them.
    """
    warnings.simplefilter('ignore')
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    _remember_code()
    tempfile.tempdir = str(place)  # for readers that unpack, too
    reader = READERS[name]
    for part in ('corpus', 'findings', 'seeds'):
        (folder / part).mkdir(parents=True, exist_ok=True)
    reader.prepare(place)
    (place / reader.name).parent.mkdir(parents=True, exist_ok=True)
    try_one = trial(reader, place, Findings(folder / 'findings'))
    for number, content in enumerate(seeds(name)):
        (folder / 'seeds' / f'{number}').write_bytes(content)
        try_one(content)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    options = {
        'max_total_time': seconds,
        'timeout': _LONGEST_WAIT_S,
        'rss_limit_mb': peak_mb + MOST_GROWTH_MB,
        'max_len': LONGEST_BYTES,
        'artifact_prefix': f'{folder / "findings"}{os.sep}',
        'print_final_stats': 1,
        'verbosity': 0,
        'reload': 0,
        'close_fd_mask': 3,  # what libraries in C++ say of every input takes longer than to read it
    }
    gc.freeze()
    kept = Path(__file__).parent / 'corpus' / name
    corpora = [folder / 'corpus', folder / 'seeds', *([kept] if kept.is_dir() else [])]
    words = [f'-{option}={value}' for option, value in options.items()]
    atheris.Setup(
        ['fuzz', *words, *([one] if one else map(str, corpora))],
        try_one,
        custom_mutator=mutator(reader.form),
    )
    atheris.Fuzz()
