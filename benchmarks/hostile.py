"""Files that were made to harm their reader, against the readers: each is read, or refused in one printable line.

    python benchmarks/hostile.py [--quick] [--only bag weights]

`hostile_files.py` writes them: weights and tables that run code, expand to gigabytes, never end, lie about sizes or
hold what a terminal obeys, and for every kind files that are empty, noise, cut, a pipe or a device without end.
Each is read in a process of its own, as a command reads it, within limits of processor time, time and memory. A case is
fine when it is read, or ends in one printable line and status 1; what libpng, OpenCV and OpenVINO print before it is
theirs. Nothing of a file may be run. Ends with status 1 where one is not. Writes results/hostile.json.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import cv2
import psutil
import torch
from parts.harness import Run, option, run_script, show
from parts.hostile_files import MARK, Case, all_cases

from deadline_perception.core.images.image_file import load_image
from deadline_perception.core.process_memory import trim_memory
from deadline_perception.engines.segment_store import SegmentStore
from deadline_perception.extras.data.bag_file import BagFile
from deadline_perception.extras.data.coco import read_coco
from deadline_perception.extras.data.recorded_speed import read_speed_trace
from deadline_perception.extras.data.video import read_video
from deadline_perception.extras.external_models.model_set.set_file import (
    ModelSpec,
    SetFile,
    load_model,
)
from deadline_perception.extras.external_models.model_set.torchvision_detector import fits
from deadline_perception.networks.model_reference import find_weights, load_weights
from deadline_perception.timing.calibration import CalibrationFile
from deadline_perception.timing.part_bound import PartBound
from deadline_perception.timing.recent_times import StartRatio
from deadline_perception.tools.command_line import exit_status
from deadline_perception.tools.support.file_arguments import DEFAULT_WEIGHTS

PROCESSOR_S, LONGEST_S = 30, 120.0  # of one file; the latter on a busy machine
MOST_MB = 1200  # of memory in use beyond what the process began with
_ADDRESS_BYTES = 2**33  # asked for beyond what it began with; what is not used does no harm
_QUICK_OF_KIND = 3  # of each kind, its own files before those that are damaged
_MOST_CHARACTERS = 4200  # of the line
_UNCAUGHT = 70


@dataclass(frozen=True)
class Verdict:
    """What became of a case: `read`, `refused`, or what went wrong; what it printed, and took beyond the beginning."""

    end: str
    line: str
    took_s: float
    memory_mb: float

    @property
    def fine(self) -> bool:
        """Nothing went wrong."""
        return self.end in ('read', 'refused')


READERS: dict[str, Callable[[Path], object]] = {  # as commands and nodes read them
    'set': SetFile.load,
    'coco': read_coco,
    'segments': lambda file: _read_segments(file),
    'weights': load_weights,
    'pth': lambda file: fits('ssdlite320_mobilenet_v3_large', file, 91),
    'bag': lambda file: _read_bag(file),
    'image': load_image,
    'video': lambda file: [frame.load_bgr() for frame in read_video(file).frames[:50]],
    'network': lambda file: load_model(ModelSpec('a', 'onnx', file, ('car', 'bike'))),
    'speeds': read_speed_trace,
    'calibration': lambda file: _read_calibration(file),
}


def _read_calibration(file: Path) -> None:
    state = CalibrationFile(file, {'profile': 'a'}).load(alpha=0.01, eta=0.05)
    PartBound.from_state(state, StartRatio(0.0, 0.1))


def _read_segments(file: Path) -> None:
    store = SegmentStore.load(file.parent, {})
    store.check()
    for key in store.segments:
        store.mapped(key)


def _read_bag(file: Path) -> None:
    with closing(BagFile(file)) as bag:
        for _, kind, _, raw in bag.messages({topic.name for topic in bag.topics}):
            bag.parse(raw, kind)


def try_case(case: Case, read: Callable[[Path], object], folder: Path) -> Verdict:
    """Reads one file in a process of its own, which begins as a copy of this one."""
    printed, began_s, (reading, writing) = folder / 'printed', time.monotonic(), os.pipe()
    trim_memory()  # what is free here and in the copy would hide as much of what the file takes
    child = os.fork()
    if not child:
        os.write(writing, f'{psutil.Process().memory_info().rss / 2**20}'.encode())
        _read_and_end(case, read, printed)
    began_mb = float(os.read(reading, 100))
    os.close(reading)
    os.close(writing)
    status, usage = _wait(child, began_s + LONGEST_S)
    took_s, memory_mb = time.monotonic() - began_s, max(0.0, usage.ru_maxrss / 1024 - began_mb)
    said = printed.read_text(encoding='utf-8', errors='surrogateescape')
    end = _end(case.kind, status, said, memory_mb, any(folder.rglob(MARK)))
    return Verdict(end, said.strip()[-300:], took_s, memory_mb)


def _end(kind: str, status: int, said: str, memory_mb: float, ran_code: bool) -> str:
    if ran_code:
        return 'ran code'
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number in (signal.SIGXCPU, signal.SIGKILL):
            return 'took too long'
        return f'ended by signal {number}'
    if memory_mb > MOST_MB:
        return f'took {memory_mb:.0f} MB'
    code, lines = os.WEXITSTATUS(status), [line for line in said.split('\n') if line]
    if code == 0:
        return 'read'
    own = [line for line in lines if line.startswith(f'{kind}: ')]
    if code != 1 or len(own) != 1 or lines[-1] != own[0]:
        return f'not caught: {lines[-1] if lines else f"status {code}"}'
    if not own[0].isprintable() or len(own[0]) > _MOST_CHARACTERS:
        return 'a line that is too long or not printable'
    return 'refused'


def _read_and_end(case: Case, read: Callable[[Path], object], printed: Path) -> None:
    """The work of the process; never returns."""
    status = _UNCAUGHT
    try:
        output = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(case.file.parent)
        sys.path.insert(0, str(case.file.parent))  # as a program of the user's may have it
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_S, PROCESSOR_S + 5))
        limit = psutil.Process().memory_info().vms + _ADDRESS_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        with open(
            2, 'w', encoding='utf-8', errors='surrogateescape', closefd=False, buffering=1
        ) as sys.stderr:
            warnings.simplefilter('ignore')
            status = exit_status(case.kind, lambda: (read(case.file), None)[1])
    except BaseException:
        os.write(2, traceback.format_exc().encode('utf-8', 'replace'))
    os._exit(status)


def _wait(child: int, until_s: float) -> tuple[int, resource.struct_rusage]:
    while True:
        pid, status, usage = os.wait4(child, os.WNOHANG)
        if pid:
            return status, usage
        if time.monotonic() > until_s:
            os.kill(child, signal.SIGKILL)
            until_s = float('inf')
        time.sleep(0.005)


def show_kinds(verdicts: list[tuple[Case, Verdict]]) -> None:
    """Prints what became of each kind, and every case that is not fine."""
    rows = []
    for kind in dict.fromkeys(case.kind for case, _ in verdicts):
        mine = [verdict for case, verdict in verdicts if case.kind == kind]
        ends = Counter(verdict.end for verdict in mine)
        rows.append((kind, len(mine), ends['read'], ends['refused']))
    show('hostile files', 'kind | files | read | refused', rows)
    for case, verdict in verdicts:
        if not verdict.fine:
            print(f'{case.kind}: {case.name!a}: {verdict.end!a}: {verdict.line!a}')


def main(run: Run) -> int:
    """Tries the files; returns 1 where one is not fine."""
    args = run.args
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    weights = find_weights(DEFAULT_WEIGHTS)
    unknown = set(args.only) - set(READERS)
    if unknown:
        raise ValueError(
            f'--only is {", ".join(sorted(unknown))}, expected some of {", ".join(READERS)}'
        )
    of_each = _QUICK_OF_KIND if run.quick else None
    with tempfile.TemporaryDirectory() as folder:
        cases = all_cases(Path(folder), weights, args.only, of_each)
        verdicts = [(case, try_case(case, READERS[case.kind], Path(folder))) for case in cases]
    show_kinds(verdicts)
    rows = [
        {
            'kind': case.kind,
            'name': ascii(case.name)[1:-1],
            'end': ascii(verdict.end)[1:-1],
            'took_s': round(verdict.took_s, 2),
            'memory_mb': round(verdict.memory_mb),
        }
        for case, verdict in verdicts
    ]
    bad = sum(not verdict.fine for _, verdict in verdicts)
    print(f'{len(rows) - bad} of {len(rows)} files were read or refused in one line')
    run.indent = None
    run.write(files=len(rows), not_fine=bad, processor_s=PROCESSOR_S, most_mb=MOST_MB, cases=rows)
    return 1 if bad else 0


if __name__ == '__main__':
    kinds = option([], 'kinds of files to try', nargs='+', metavar='KIND')
    run_script(main, {'--only': kinds}, quick=f'{_QUICK_OF_KIND} files of each kind')
