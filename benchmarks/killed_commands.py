"""SIGKILL at random moments of `train`, `tune`, `adopt` and `profile`: what was there is usable, the rest goes on.

    python benchmarks/killed_commands.py [--only train tune] [--kills 5] [--quick]

Real commands with tiny networks, each in a folder of its own. A command runs once to its end, for how long it takes
and for files that are there already; then its main process is killed, as the kernel does when memory is short, at
moments drawn evenly from that time (fixed seed; one that ended earlier counts for nothing, and another moment is
drawn). After each kill the files must load and belong together, no process that it started may be left after 15 s, and
no step of training or prepared segment of earlier may be lost. At last it runs to its end again, on what the killed
ones left, without leftovers. Ends with status 1 where one of it does not hold. Writes results/killed_commands.json.
"""
from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from parts.harness import COMMAND, Run, run_script, show
from parts.killed_command_kinds import KINDS, Kind

from deadline_perception.core.device import process_environment, read_device_facts
from deadline_perception.core.errors import DeadlinePerceptionError

KILLS, SEED = 5, 0
LONGEST_S, ORPHANS_END_S = 300.0, 15.0
LEFTOVERS = '*.partial'


@dataclass
class Kill:
    """What became of one.

    Attributes:
        after_s: the command's start.
        running: it had not ended by then.
        progress: steps, iterations or segments that were kept, in the command's own unit.
        why: what did not hold; empty when all did.
    """

    after_s: float
    running: bool
    progress: int
    why: list[str] = field(default_factory=list)


@dataclass
class Verdict:
    """What became of one command.

    Attributes:
        command: its name.
        took_s: a whole run.
        kills: each.
        progress: at the end.
        why: what did not hold of the whole runs; empty when all did.
    """

    command: str
    took_s: float = 0.0
    kills: list[Kill] = field(default_factory=list)
    progress: int = 0
    why: list[str] = field(default_factory=list)

    @property
    def fine(self) -> bool:
        """All held."""
        return not self.why and not any(kill.why for kill in self.kills)


def start(words: Sequence[str], cache: Path, log: Path) -> subprocess.Popen:
    """Starts `deadline-perception WORDS` in a session of its own."""
    usual = {name: value for name, value in os.environ.items() if name not in process_environment(2)}
    with log.open('w', encoding='utf-8') as stream:
        return subprocess.Popen([*COMMAND, *words],
                                stdout=stream, stderr=stream, stdin=subprocess.DEVNULL, start_new_session=True,
                                env={**usual, 'XDG_CACHE_HOME': str(cache), 'COLUMNS': '120'})


def of_session(session: int) -> list[int]:
    """Processes of a session that run still."""
    found = []
    for entry in Path('/proc').glob('[0-9]*/stat'):
        try:
            state, _, _, its = entry.read_text().rpartition(') ')[2].split()[:4]
        except OSError:  # ended meanwhile
            continue
        if int(its) == session and state != 'Z':
            found.append(int(entry.parent.name))
    return found


def whole_run(kind: Kind, folder: Path, words: Sequence[str], verdict: Verdict) -> float:
    """Runs a command to its end and judges that; s."""
    begun_s = time.monotonic()
    process = start(words, folder / 'cache', folder / 'log')
    try:
        status = process.wait(LONGEST_S)
        if status:
            verdict.why.append(f'status {status}: {last_line(folder / "log")}')
    except subprocess.TimeoutExpired:
        verdict.why.append(f'did not end within {LONGEST_S:g} s')
    finally:
        end(process)
    return time.monotonic() - begun_s


def kill(kind: Kind, folder: Path, after_s: float, verdict: Verdict) -> None:
    """Starts the command, kills it so much later, and judges what it left."""
    process = start(kind.again(folder), folder / 'cache', folder / 'log')
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        pass
    found = Kill(round(after_s, 2), process.poll() is None, 0)
    verdict.kills.append(found)
    process.kill()
    process.wait()
    until = time.monotonic() + ORPHANS_END_S
    while (left := of_session(process.pid)) and time.monotonic() < until:
        time.sleep(0.2)
    if left:
        found.why.append(f'{len(left)} processes are left after {ORPHANS_END_S:g} s')
    end(process)
    found.progress = progress_of(kind, folder, found.why)
    if kind.keeps and found.progress < verdict.progress:
        found.why.append(f'{kind.unit} {found.progress}, before it {verdict.progress}')
    verdict.progress = max(verdict.progress, found.progress)


def progress_of(kind: Kind, folder: Path, why: list[str]) -> int:
    """How far the command has come, by its files; what is not usable of them is added to `why`."""
    try:
        return kind.check(folder)
    except (OSError, ValueError, DeadlinePerceptionError) as error:
        why.append(f'not usable: {error}')
        return 0


def end(process: subprocess.Popen) -> None:
    """Ends what is left of a command."""
    for number in of_session(process.pid):
        try:
            os.kill(number, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


def last_line(log: Path) -> str:
    """The last line of a log."""
    return next((line for line in reversed(log.read_text(errors='replace').splitlines()) if line.strip()), 'no word')


def judge(kind: Kind, folder: Path, kills: int) -> Verdict:
    """Runs, kills, and runs one command."""
    verdict, draw = Verdict(kind.name), random.Random(f'{SEED} {kind.name}')
    kind.prepare(folder)
    verdict.took_s = round(whole_run(kind, folder, kind.first(folder), verdict), 1)
    verdict.progress = progress_of(kind, folder, verdict.why)
    if verdict.why:
        return verdict
    verdict.progress = kind.begin_again(folder, verdict.progress)
    for _ in range(2 * kills):
        if sum(one.running for one in verdict.kills) < kills:
            kind.restore(folder)
            kill(kind, folder, draw.uniform(0.0, verdict.took_s), verdict)
    if sum(one.running for one in verdict.kills) < kills:
        verdict.why.append(f'ended before {kills} kills')
    before = verdict.progress
    kind.restore(folder)
    whole_run(kind, folder, kind.again(folder), verdict)
    verdict.progress = progress_of(kind, folder, verdict.why)
    if verdict.progress <= before and kind.grows:
        verdict.why.append(f'{kind.unit} {verdict.progress} after the last run, before it {before}')
    left = [file.name for file in folder.rglob(LEFTOVERS)]
    if left:
        verdict.why.append(f'left over: {", ".join(left)}')
    return verdict


def main(run: Run) -> int:
    args, verdicts = run.args, []
    for kind in (kind for kind in KINDS if kind.name in args.only):
        folder = Path(tempfile.mkdtemp(prefix=f'killed_{kind.name}_'))
        try:
            verdicts.append(judge(kind, folder, 1 if run.quick else args.kills))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(f'{kind.name}: {"fine" if verdicts[-1].fine else asdict(verdicts[-1])}', flush=True)
    show_verdicts(verdicts)
    if not run.quick:
        known = json.loads(run.file.read_text())['commands'] if run.file.is_file() else {}
        known |= {verdict.command: asdict(verdict) for verdict in verdicts}
        run.write(device=str(read_device_facts()), seed=SEED, commands=known)
    return 0 if all(verdict.fine for verdict in verdicts) else 1


def show_verdicts(verdicts: Sequence[Verdict]) -> None:
    """The table."""
    rows = []
    for verdict in verdicts:
        why = [*verdict.why, *(word for one in verdict.kills for word in one.why)]
        rows.append((verdict.command, f'{verdict.took_s:.1f}',
                     ', '.join(f'{one.after_s:.1f}{"" if one.running else " (ended)"}' for one in verdict.kills),
                     ', '.join(str(one.progress) for one in verdict.kills), verdict.progress, '; '.join(why) or 'fine'))
    show('killed commands', ('command', 'whole run s', 'killed after s', 'kept after each', 'in the end', 'verdict'),
         rows, words=6)


if __name__ == '__main__':
    names = [kind.name for kind in KINDS]
    run_script(main, {
        '--only': {'nargs': '+', 'choices': names, 'default': names},
        '--kills': {'type': int, 'default': KILLS, 'help': 'of each command'}},
        quick='one of each; nothing is written')
