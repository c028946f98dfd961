"""Resident memory of the detector over reloads and over turns through all its states: whether it levels off.

    python benchmarks/memory_growth.py [--reloads 30] [--turns 50]

A real detector process with a tiny network, under a camera of 10 Hz. It is asked to reload 30 times, then taken 50
times through deactivate, cleanup, configure and activate; after each, its resident memory is read. It levels off where
the median of the last fifth is at most 2 % above that of the fifth that begins at half. Ends with status 1 where it
does not, or where a request fails. Writes results/memory_growth.json.
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from statistics import median

from killed_command_kinds import write_detector
from node_process import StandError, process_figures
from node_stand import Feed, Stand
from std_srvs.srv import Trigger

from deadline_perception.latency.device import read_device_facts
from deadline_perception.latency.json_file import write_text_atomically
from deadline_perception.tools.command_line import exit_status
from deadline_perception.tools.demo import check_ros
from deadline_perception.tools.node_run import keep_to_this_machine

RESULTS = Path(__file__).parent / 'results' / 'memory_growth.json'
TURN = ('deactivate', 'cleanup', 'configure', 'activate')
LIMIT_S, REST_S = 60.0, 0.3
LEVEL_SHARE = 0.02


def growth(memory_mb: list[float]) -> tuple[float, float]:
    """Medians of the fifth that begins at half and of the last, MB."""
    fifth, half = max(1, len(memory_mb) // 5), len(memory_mb) // 2
    return median(memory_mb[half:half + fifth]), median(memory_mb[-fifth:])


def reload(stand: Stand) -> None:
    """One reload of the same weights."""
    answer = stand.call(Trigger, 'detector/reload', Trigger.Request(), LIMIT_S)
    if answer is None or not answer.success:
        raise StandError(f'the reload failed: {"no answer" if answer is None else answer.message}')


def turn(stand: Stand) -> None:
    """Once through all states."""
    done = stand.turn('detector', *TURN, limit_s=LIMIT_S)
    if not all(done):
        raise StandError(f'{", ".join(TURN)} gave {done}, expected success of each')


def watch(stand: Stand, act: Callable[[Stand], None], times: int) -> list[float]:
    """Memory in MB before the first and after each."""
    def look() -> float:
        time.sleep(REST_S)
        return round(process_figures(stand.pids()['detector']).memory_kb / 1024.0, 1)

    found = [look()]
    for _ in range(times):
        act(stand)
        found.append(look())
    return found


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--reloads', type=int, default=30)
    parser.add_argument('--turns', type=int, default=50)
    args = parser.parse_args()
    check_ros()
    keep_to_this_machine()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ['XDG_CACHE_HOME'] = name  # neither segments nor a calibration of earlier
        weights, profile = folder / 'tiny.safetensors', folder / 'profile.json'
        write_detector(weights, 1)
        subprocess.run([sys.executable, '-m', 'deadline_perception.tools.command_line', 'profile', '--weights',
                        str(weights), '--engine', 'eager', '--quick', '--minutes', '0.05', '--out', str(profile)],
                       check=True, stdout=subprocess.DEVNULL)
        stand = Stand(('detector',), folder, profile, feed=Feed(images_hz=10.0))
        stand.values['model'] = str(weights)
        with stand:
            found = {'reloads': watch(stand, reload, args.reloads), 'turns': watch(stand, turn, args.turns)}
    levels = True
    for what, memory_mb in found.items():
        at_half_mb, last_mb = growth(memory_mb)
        level = last_mb <= (1.0 + LEVEL_SHARE) * at_half_mb
        levels &= level
        print(f'{len(memory_mb) - 1} {what}: {memory_mb[0]:.0f} MB before, {at_half_mb:.0f} MB from half on, '
              f'{last_mb:.0f} MB at last: {"levels off" if level else "grows"}')
    write_text_atomically(RESULTS, json.dumps({
        'date': date.today().isoformat(), 'device': read_device_facts('cpu').name, 'levels_off': levels,
        'memory_mb': found}, indent=1) + '\n')
    print(f'wrote {RESULTS.relative_to(RESULTS.parents[1])}')
    return 0 if levels else 1


if __name__ == '__main__':
    sys.exit(exit_status(Path(__file__).name, main))
