"""Fault injection: what becomes of images, processes and threads when inputs, files, clocks and processes go wrong.

    python benchmarks/faults.py [--only NAME ...] [--out FILE]

Every fault of `fault_table.py` meets real node processes over DDS. An image counts as answered in time when detections
of it or of a newer one are heard within its budget; as replaced when it was not, but those of a newer one were heard
within the newer one's budget and two of its own; otherwise as late, or unanswered. Silently lost is an image that was
neither answered nor counted as replaced, rejected or lost by the middleware. A fault is withstood when what is expected
of it holds, its processes are alive with all their threads and are heard, and everything works again afterwards.
Prints a table and writes results/faults.json, or with --only one below out/benchmarks.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from parts.fault_table import FAULTS, STANDS, Fault, Images
from parts.harness import Run, option, run_script, shown
from parts.node_listener import HeardFrame
from parts.node_process import StandError, profile_for
from parts.node_stand import BUDGET_MS, Stand

from deadline_perception.core.stopwatch import now_ms
from deadline_perception.nodes.middleware import make_room_for_images
from deadline_perception.nodes.node_table import NODES
from deadline_perception.tools.demo import check_ros
from deadline_perception.tools.support.node_run import keep_to_this_machine

# From publication to this script's own callback, on a machine whose cores are all busy.
HEARING_MS = 60.0
LATE_SHARE = 0.05  # of a fault's images, or one, may be late: the machine is not the nodes' own
CALM_S = 1.0
WATCHDOGS = 2  # threads that a watchdog begins with
QUIET_MS = 3000.0  # a node that has not been heard on /diagnostics for so long is mute


@dataclass
class Verdict:
    """What became of one fault.

    Attributes:
        fault: its name.
        images: sent while it lasted.
        in_time, replaced, late, unanswered: of these, see the module; rejected ones are not judged.
        rejected: images that the node counted as rejected.
        silently_lost: images in no count, None where counts began anew.
        survived: no process ended.
        recovered_s: time until everything worked again, None when it never did.
        threads: lost by processes that are still up.
        why: what was not as expected; empty when the fault was withstood.
    """

    fault: str
    images: int = 0
    in_time: int = 0
    replaced: int = 0
    late: int = 0
    unanswered: int = 0
    rejected: int = 0
    silently_lost: int | None = None
    survived: bool = True
    recovered_s: float | None = None
    threads: int = 0
    why: list[str] = field(default_factory=list)


def answers_of(judged: range, sent_ms: Sequence[float], answers: Mapping[int, float]) -> Counter:
    """How many images were answered in time, replaced, late and unanswered, see the module: by when they were sent, and
    when their detections were heard, ms."""
    found = Counter()
    for number in judged:
        later = [(at_ms, other) for other, at_ms in answers.items() if other >= number]
        if not later:
            found['unanswered'] += 1
            continue
        at_ms, other = min(later)
        waited_ms, newer_ms = (at_ms - HEARING_MS - sent_ms[one] for one in (number, other))
        if waited_ms <= BUDGET_MS:
            found['in_time'] += 1
        elif other != number and newer_ms <= BUDGET_MS and waited_ms <= 2.0 * BUDGET_MS:
            found['replaced'] += 1
        else:
            found['late'] += 1
    return found


def silently_lost(
    sent: int, frames: Sequence[HeardFrame], answered: Collection[int] = ()
) -> int | None:
    """Images between the first and the newest of these frames that are in no count; None when counts began anew.

    Args:
        sent: images from after the first frame's to the newest frame's.
        frames: latency messages as heard, the first one included; one whose publication hung may come out of turn.
        answered: images whose detections were heard, for those whose latency message was lost.
    """
    if not frames:
        return None
    first = frames[0].number
    in_turn = [frame for frame in frames if frame.number >= first]
    in_turn.sort(key=lambda frame: frame.number)
    last = in_turn[-1].number
    totals = [(frame.replaced, frame.rejected, frame.lost) for frame in in_turn]
    for before, after in zip(totals, totals[1:]):
        if any(new < old for old, new in zip(before, after)):
            return None
    seen = {frame.number for frame in in_turn}.union(answered)
    answered_since = sum(first < number <= last for number in seen)
    return sent - answered_since - sum(totals[-1]) + sum(totals[0])


def inflict(fault: Fault, stand: Stand) -> Verdict:
    """Lets a fault happen on a stand that works, and judges it. Blocks for seconds."""
    verdict = Verdict(fault.name)
    time.sleep(CALM_S)
    threads = usual_threads(stand)
    said_before = len(stand.output())
    begun_ms = now_ms()
    first = len(stand.sent)
    frames_before = len(stand.heard.frames)
    stand.feed_for(0.0, **fault.feed)
    problem = '' if fault.inflict is None else fault.inflict(stand)
    stand.feed_for(fault.lasts_s)
    ended_ms = now_ms()
    last = len(stand.sent)
    stand.feed = stand.usual
    died = recover(fault, stand, ended_ms, verdict)
    verdict.survived = not died
    if problem:
        verdict.why.append(problem)
    if died and not fault.may_end:
        verdict.why += [f'{name} ended with {status}' for name, status in died.items()]
    judge_processes(stand, threads, verdict)
    said = (*stand.heard.problems(begun_ms), stand.output()[said_before:])
    if fault.says and not any(re.search(fault.says, text) for text in said):
        verdict.why.append(f'{fault.says!r} is said nowhere')
    judge_images(fault, stand, range(first, last), frames_before, begun_ms, verdict)
    if any(at_ms >= begun_ms for at_ms in stand.heard.not_finite):
        verdict.why.append('boxes that are not finite')
    return verdict


def usual_threads(stand: Stand) -> dict[str, tuple[int, Counter]]:
    """Process and threads of every node: of those it has now, the ones that it had when it was first looked at.

    Of the watchdog's threads two are needed: more stand in for slow ones, and end when these go on.
    """
    found = {}
    for name, figures in stand.figures().items():
        pid = stand.pids()[name]
        names = Counter(figures.thread_names)
        names['watchdog'] = min(names['watchdog'], WATCHDOGS)
        found[name] = pid, names & stand.first_threads.setdefault(pid, names)
    return found


def recover(fault: Fault, stand: Stand, ended_ms: float, verdict: Verdict) -> dict[str, int]:
    """Waits until everything works again, starting anew what has died. Returns what died with its exit status."""
    died: dict[str, int] = {}
    nodes = [entry.name for entry in NODES] if 'bringup' in stand.names else stand.names
    while True:
        died |= stand.revive()
        heard = {name for at_ms, name, _, _ in stand.heard.diagnostics if at_ms > ended_ms}
        if set(nodes) <= heard and stand.recovered(ended_ms):
            verdict.recovered_s = (now_ms() - ended_ms) / 1000.0
            time.sleep(CALM_S)
            return died
        if now_ms() - ended_ms > fault.recovers_s * 1000.0:
            if fault.recovers_s:
                missing = sorted(set(nodes) - heard)
                verdict.why.append(
                    f'does not work again after {fault.recovers_s:.0f} s'
                    + (f', not heard: {", ".join(missing)}' if missing else '')
                )
            return died
        time.sleep(0.1)


def judge_processes(
    stand: Stand, before: Mapping[str, tuple[int, Counter]], verdict: Verdict
) -> None:
    """Every process that is up has its threads, and is heard."""
    now = stand.figures()
    pids = stand.pids()
    for name, (pid, threads) in before.items():
        # The supervisor has one per node that it looks after, and a node may rightly stay down.
        if name == 'bringup' or pids.get(name) != pid or name not in now:
            continue
        if now[name].threads < threads.total():
            time.sleep(1.0)  # a thread that stands in for another may still be starting
            lost = threads - Counter(stand.figures()[name].thread_names)
            verdict.threads += lost.total()
            if lost:
                verdict.why.append(f'{name} has lost threads, named {", ".join(lost)}')
    if verdict.recovered_s is not None:
        heard_ms = {name: at_ms for at_ms, name, _, _ in stand.heard.diagnostics}
        quiet = {name for name, at_ms in heard_ms.items() if now_ms() - at_ms > QUIET_MS}
        if mute := quiet.intersection(stand.names):
            verdict.why.append(f'no diagnostics from {", ".join(sorted(mute))}')


def judge_images(
    fault: Fault,
    stand: Stand,
    numbers: range,
    frames_before: int,
    begun_ms: float,
    verdict: Verdict,
) -> None:
    """Every image was answered as expected, or is in a count."""
    frames = stand.heard.frames[max(0, frames_before - 1) :]
    verdict.images = len(numbers)
    verdict.rejected = max(frame.rejected for frame in frames) - frames[0].rejected
    if fault.counted:
        newest = max(frame.number for frame in frames)
        verdict.silently_lost = silently_lost(
            newest - frames[0].number, frames, set(stand.heard.answers)
        )
        if verdict.silently_lost is None:
            verdict.why.append('counts began anew')
        elif verdict.silently_lost > 0:
            verdict.why.append(f'{verdict.silently_lost} images lost silently')
    if fault.images in (Images.IN_TIME, Images.AFTERWARDS):
        heard = dict(stand.heard.answers)  # which goes on growing meanwhile
        answers = {number: at_ms for number, at_ms in heard.items() if number >= numbers.start}
        found = answers_of(numbers, stand.sent, answers)
        for name in ('in_time', 'replaced', 'late', 'unanswered'):
            setattr(verdict, name, found[name])
    if fault.images is Images.IN_TIME and verdict.late + verdict.unanswered > max(
        1, LATE_SHARE * len(numbers)
    ):
        verdict.why.append(f'{verdict.late} late, {verdict.unanswered} unanswered')
        if not stand.heard.problems(begun_ms):
            verdict.why.append('diagnostics say OK')
    if fault.images is Images.REJECTED and verdict.rejected < 0.8 * len(numbers):
        verdict.why.append(f'{verdict.rejected} of {len(numbers)} images counted as rejected')


def inflict_all(faults: Sequence[Fault], profile: Path) -> Iterator[tuple[Fault, Verdict]]:
    """Inflicts faults, those of one stand one after the other on the same processes as long as these withstand them."""
    for name in STANDS:
        waiting = [fault for fault in faults if fault.stand == name]
        while waiting:
            try:
                with (
                    tempfile.TemporaryDirectory() as folder,
                    Stand(folder=Path(folder), profile=profile, **STANDS[name]) as stand,
                ):
                    is_whole = True  # what a fault has left behind shall not be blamed on the next
                    while waiting and is_whole:
                        fault = waiting.pop(0)
                        try:
                            verdict = inflict(fault, stand)
                        except Exception as error:  # what cannot be inflicted hides no other
                            verdict = Verdict(fault.name, why=[f'{type(error).__name__}: {error}'])
                        yield fault, verdict
                        is_whole = verdict.survived and not verdict.why
            except (StandError, ValueError) as error:  # nor does a stand that does not start
                why = [f'its stand does not start: {error}']
                for fault in waiting:
                    yield fault, Verdict(fault.name, survived=False, why=why)
                waiting = []


COLUMNS = 'images', 'in_time', 'replaced', 'rejected', 'late', 'unanswered', 'silently_lost'


def line_of(fault: Fault, verdict: Verdict) -> str:
    """One line of the table, in the order of `COLUMNS`."""
    counts = ' '.join(f'{shown(getattr(verdict, name)):>{len(name)}}' for name in COLUMNS)
    back = f'{shown(verdict.recovered_s):>9}'
    return f'{fault.kind:>10} {fault.name:<26} {counts} {back}  {"; ".join(verdict.why) or "withstood"}'


def main(run: Run) -> int:
    args = run.args
    parts = args.only or ['']
    chosen = [fault for fault in FAULTS if any(part in fault.name for part in parts)]
    if not chosen:
        known = ', '.join(fault.name for fault in FAULTS)
        raise ValueError(f'no fault is named {" or ".join(args.only)}, expected some of {known}')
    check_ros()
    keep_to_this_machine()
    make_room_for_images()
    profile = profile_for()
    run.quick = bool(args.only)  # some faults are no whole run
    rows = []
    print(f'{"kind":>10} {"fault":<26} {" ".join(COLUMNS)} back in s')
    try:
        for fault, verdict in inflict_all(chosen, profile):
            print(line_of(fault, verdict), flush=True)
            said = {'kind': fault.kind, 'does': fault.does, 'expects': list(fault.expects)}
            rows.append({**said, **asdict(verdict)})
    finally:
        withstood = sum(not row['why'] for row in rows)
        figures = {'budget_ms': BUDGET_MS, 'hearing_ms': HEARING_MS, 'late_share': LATE_SHARE}
        run.write(**figures, faults=len(rows), withstood=withstood, rows=rows)
    print(f'{withstood} of {len(rows)} faults withstood')
    return int(withstood < len(rows))


if __name__ == '__main__':
    run_script(
        main,
        {
            '--only': option([], 'names of faults, or parts of them', nargs='+', metavar='NAME'),
        },
    )
