"""How many segments are worth being prepared and loaded: what plans lose with fewer.

    python benchmarks/useful_paths.py [--weights FILE] [--profile FILE]

Chooses the useful paths of a network by the profile of another device, which comes with the package, as the command
`profile` does, with several limits of what may be lost, and compares plans by times of this device: mean quality over
200 times and six levels of recourse. Needs `profile --all-paths`. Writes results/useful_paths.json.
"""
from __future__ import annotations

from pathlib import Path

import numpy as np

from deadline_perception.core.device import read_device_facts
from deadline_perception.core.share_folder import share_folder
from deadline_perception.decision import useful_paths as module
from deadline_perception.decision.frontier import LEVELS, FrontierPolicy
from deadline_perception.decision.useful_paths import useful_paths
from deadline_perception.networks.model_set.model_reference import find_weights, load_weights
from deadline_perception.runtime.loading import load_quality
from deadline_perception.timing.path_bound import PathForecast
from deadline_perception.timing.profile import LatencyProfile, default_profile_path
from deadline_perception.timing.transferred_profile import find_reference
from deadline_perception.tools.file_arguments import DEFAULT_WEIGHTS
from parts.harness import Run, run_script, show

SHIPPED = (module._FIRST_LOSS, module._MOST_LOSS)
LIMITS = ((0.01, 0.01), (0.002, 0.005), SHIPPED, (0.0005, 0.002), (0.0005, 0.001), (0.0, 0.0))
TIMES = 200


def main(run: Run) -> None:
    weights, facts = find_weights(run.args.weights), read_device_facts()
    network = load_weights(weights)
    space = network.path_space
    profile = LatencyProfile.load(run.args.profile or default_profile_path(network.config_name, facts))
    reference = find_reference(share_folder() / 'models' / 'profiles', config_name=network.config_name,
                               network_hash=network.network_hash, input_size=network.input_size, facts=facts,
                               engine=profile.engine)
    here, there = PathForecast(profile, space), PathForecast(reference, space)
    quality = load_quality(network, here, weights)
    every = FrontierPolicy(space, here, quality)
    times_ms = np.geomspace(every.starts()[0][1], every.starts()[-1][1], TIMES)
    best = planned(every, times_ms)
    rows = [{'limit_points': None, 'segments': len(space.carriers()), 'paths': len(space), 'lost_points': 0.0,
             'lost_by_level': [0.0] * len(LEVELS), 'most_lost_points': 0.0}]
    for module._FIRST_LOSS, module._MOST_LOSS in LIMITS:
        useful = useful_paths(space, there, quality)
        lost = 100.0 * (best - planned(FrontierPolicy(space, here, quality, paths=useful), times_ms))
        keys = {key for path in useful for key in space.keys(path)}
        rows.append({'limit_points': 100.0 * module._MOST_LOSS, 'segments': len(keys), 'paths': len(useful),
                     'lost_points': float(lost.mean()), 'lost_by_level': lost.mean(1).tolist(),
                     'most_lost_points': float(lost.max())})
    show('plans with fewer segments', ('limit, points', 'segments', 'paths', 'lost: mean', 'without recourse', 'most'),
         [(row['limit_points'], row['segments'], row['paths'], row['lost_points'], row['lost_by_level'][-1],
           row['most_lost_points']) for row in rows])
    run.goal('points of quality lost in the mean', rows[1 + LIMITS.index(SHIPPED)]['lost_points'], most=0.3)
    run.write(weights=weights.name, reference=str(reference.facts), profile_date=profile.date, levels=LEVELS, rows=rows)


def planned(policy: FrontierPolicy, times_ms: np.ndarray) -> np.ndarray:
    """Quality of what is planned, `[levels, times]`."""
    return np.array([[policy.plan(float(time_ms), 1.0, level).quality for time_ms in times_ms] for level in LEVELS])


if __name__ == '__main__':
    run_script(main, {
        '--weights': {'type': Path, 'default': DEFAULT_WEIGHTS},
        '--profile': {'type': Path, 'help': 'times of this device, of all segments'}})
