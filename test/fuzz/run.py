"""Fuzzes every reader of `readers.py` by coverage, one after the other, each in a fork of one process of low priority.

    python test/fuzz/run.py [--minutes 90] [--only READER ...] [--out benchmarks/results/fuzz.json]

Goes on where it stopped: what was found so far lies in out/fuzz/READER, inputs that reach new code in `corpus` and
findings in `findings`, each with its traceback; a crash, a hang or a lack of memory ends the fork, and libFuzzer leaves
the input as `crash-`, `timeout-` or `oom-`. The reader that has had the least of its share of the time is next. Ends with
status 1 where there are findings; one that is mended belongs into test/fuzz/found/READER, which `make test` reads.
`--out` writes the counts of all readers, also with `--minutes 0`: they are cumulative, as a reader that was not run in
this checkout has what benchmarks/results/fuzz.json says of it. Python of this package and of the libraries that read for
it is instrumented; what OpenCV, FFmpeg and OpenVINO do in C++ is not seen.
"""

import argparse
import dataclasses
import gc
import json
import multiprocessing
import os
import random
import re
import resource
import sys
import tempfile
import time
import traceback
import warnings
from datetime import date
from functools import lru_cache
from pathlib import Path

os.environ.setdefault('OPENCV_LOG_LEVEL', 'SILENT')
os.environ.setdefault('OPENCV_FFMPEG_LOGLEVEL', '-8')
for threads in ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS'):
    os.environ.setdefault(threads, '1')

import atheris  # noqa: E402
import cv2  # noqa: E402
import torch  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1]))
with atheris.instrument_imports(
    include=['deadline_perception', 'rosbags', 'mcap', 'yaml', 'safetensors']
):
    from fuzz.mutation import mutated
    from fuzz.readers import READERS, REFUSALS
    from fuzz.seeds import seeds

from deadline_perception.core.replaced_file import replace_file  # noqa: E402

OUT = Path(__file__).parents[2] / 'out' / 'fuzz'
PUBLISHED = Path(__file__).parents[2] / 'benchmarks' / 'results' / 'fuzz.json'
MOST_GROWTH_MB, LONGEST_S, LONGEST_BYTES = 256, 10, 8192
SLICE_S = 60
_GRACE_S = 300  # to begin on a busy machine, and to end after an input that hangs
_LONGEST_WAIT_S = 120  # for one input on a busy machine
_EXECUTED = re.compile(r'stat::number_of_executed_units: (\d+)')
_PACKAGE = f'{os.sep}deadline_perception{os.sep}'


def keep_finding(folder: Path, content: bytes, error: BaseException) -> None:
    """Keeps input and traceback of what ended in something else than values or a refusal, one for each place."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _PACKAGE in frame.filename] or frames
    place = f'{Path(own[-1].filename).stem}-{own[-1].lineno}' if own else 'reader'
    file = folder / f'{type(error).__name__}-{place}.input'
    if not file.is_file():
        file.write_bytes(content)
        told = ''.join(traceback.format_exception(error))
        file.with_suffix('.txt').write_text(told, 'utf-8', 'backslashreplace')


def remember_code() -> None:
    """rosbags compiles code and makes a dataclass for every definition of a message; the same text gives the same code."""
    from rosbags.serde import cdr, ros1, utils

    compile_once = lru_cache(maxsize=4096)(lambda text: utils.compile_lines(text.split('\n')))
    for module in (cdr, ros1):
        module.compile_lines = lambda lines: compile_once('\n'.join(lines))
    code = lru_cache(maxsize=4096)(lambda text: compile(text, '<dataclass>', 'exec'))
    dataclasses.exec = lambda text, *names: exec(code(text), *names)  # hides the builtin there


def work(name: str, place: Path, seconds: int, one: str) -> None:
    """Fuzzes in this process, which ends with it, by files in a folder in memory; `one` input alone where there is one."""
    folder, reader = OUT / name, READERS[name]
    log = os.open(folder / 'last.log', os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    warnings.simplefilter('ignore')
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    remember_code()
    tempfile.tempdir = str(place)  # for readers that unpack, too
    file = reader.prepared(place)

    def try_one(content: bytes) -> None:
        file.write_bytes(content)
        began_s = time.process_time()
        try:
            reader.read(file)
        except REFUSALS:
            pass
        except Exception as error:
            keep_finding(folder / 'findings', content, error)
        if time.process_time() - began_s > LONGEST_S:
            slow = TimeoutError(f'took more than {LONGEST_S} s of the processor')
            keep_finding(folder / 'findings', content, slow)

    def mutate(content: bytes, most: int, seed: int) -> bytes:
        """libFuzzer's own mutations, and those that keep the form."""

        def change(part: bytes) -> bytes:
            return atheris.Mutate(part, min(most, len(part) + 64))

        return mutated(reader.form, content, random.Random(seed), change)[:most]

    whole = seeds(name)
    for number, content in enumerate(whole):
        (folder / 'seeds' / f'{number}').write_bytes(content)
        try_one(content)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    options = {
        'max_total_time': seconds,
        'timeout': _LONGEST_WAIT_S,
        'rss_limit_mb': peak_mb + MOST_GROWTH_MB,
        'max_len': max(LONGEST_BYTES, *map(len, whole)),
        'artifact_prefix': f'{folder / "findings"}{os.sep}',
        'print_final_stats': 1,
        'verbosity': 0,
        'reload': 0,
        'close_fd_mask': 3,  # what libraries in C++ say of every input takes longer than to read it
    }
    gc.freeze()
    words = [f'-{option}={value}' for option, value in options.items()]
    kept = [folder / 'corpus', folder / 'seeds', Path(__file__).parent / 'corpus' / name]
    corpora = [one] if one else [str(corpus) for corpus in kept if corpus.is_dir()]
    atheris.Setup(['fuzz', *words, *corpora], try_one, custom_mutator=mutate)
    atheris.Fuzz()


def forked(name: str, seconds: int, one: str = '') -> str:
    """What a process that fuzzes prints."""
    for part in ('corpus', 'findings', 'seeds'):
        (OUT / name / part).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir='/dev/shm') as place:
        fork = multiprocessing.get_context('fork')
        child = fork.Process(target=work, args=(name, Path(place), seconds, one))
        child.start()
        child.join(seconds + _GRACE_S)
        child.kill()
        child.join()
    return (OUT / name / 'last.log').read_text('utf-8', 'backslashreplace')


def findings(name: str) -> set[Path]:
    """Inputs that were neither read nor refused, with those that ended the process."""
    kinds = ('*.input', 'crash-*', 'timeout-*', 'oom-*')
    return {file for kind in kinds for file in (OUT / name / 'findings').glob(kind)}


def fuzz(name: str, seconds: int) -> int:
    """Fuzzes one reader for so long, tells of new findings, and returns how many inputs were tried."""
    known = findings(name)
    said = forked(name, seconds)
    for file in sorted(findings(name) - known):
        # Many inputs together may take what none of them does.
        if file.name.startswith(('oom-', 'timeout-')) and 'Executed' in forked(name, 0, str(file)):
            file.unlink()
        else:
            print(f'{name}: found {file}', flush=True)
    found = _EXECUTED.search(said)
    if found is None:
        print(f'{name}: ended without a count, see {OUT / name / "last.log"}', flush=True)
    return int(found[1]) if found else 0


def row_of(name: str) -> dict[str, float]:
    """What all runs together have done for a reader, in this checkout and before."""
    row = json.loads(PUBLISHED.read_text())['readers'].get(name, {})
    row = {'executions': 0, 'seconds': 0.0, 'corpus': 0, **row, 'findings': len(findings(name))}
    if (file := OUT / name / 'progress.json').is_file():
        row |= json.loads(file.read_text())
    return row | {'corpus': len(list((OUT / name / 'corpus').glob('*'))) or row['corpus']}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--minutes', type=float, default=90.0, help='for all together')
    parser.add_argument('--only', nargs='+', choices=READERS, default=list(READERS))
    parser.add_argument('--out', type=Path, help='file for the counts')
    args = parser.parse_args()
    os.nice(19)
    until_s = time.monotonic() + 60.0 * args.minutes
    while (left_s := until_s - time.monotonic()) > 5:
        name = min(args.only, key=lambda name: row_of(name)['seconds'] / READERS[name].share)
        began_s, done = time.monotonic(), row_of(name)
        count = fuzz(name, int(min(SLICE_S * READERS[name].share, left_s)))
        took_s = time.monotonic() - began_s
        sums = {'executions': done['executions'] + count, 'seconds': done['seconds'] + took_s}
        replace_file(OUT / name / 'progress.json', json.dumps(sums))
        print(f'{name}: {count} executions in {took_s:.0f} s', flush=True)
    rows = {name: row_of(name) for name in READERS}
    total = {key: sum(row[key] for row in rows.values()) for key in next(iter(rows.values()))}
    for name, row in {**rows, 'all': total}.items():
        print(f'{name:14} {row["executions"]:10} executions {row["findings"]:3} findings')
    if args.out is not None:
        said = 'executions and seconds are sums over all runs, also of earlier checkouts'
        facts = {'date': date.today().isoformat(), 'counted': said, **total, 'readers': rows}
        replace_file(args.out, json.dumps(facts, indent=1) + '\n')
    return 1 if total['findings'] else 0


if __name__ == '__main__':
    sys.exit(main())
