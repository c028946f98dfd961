"""Which paths of a network a detector keeps ready where memory is scarce. Free of torch and ROS."""
from __future__ import annotations

from deadline_perception.contention.pruning import Candidate, paths_to_keep
from deadline_perception.decision.policy import Quality
from deadline_perception.execution_path import ExecutionPath, PathSpace
from deadline_perception.latency.time_model import Forecast


def kept_paths(space: PathSpace, forecast: Forecast, quality: Quality, number: int) -> tuple[ExecutionPath, ...]:
    """The best paths at so many levels of contention, and the way out of each: whatever a frame on one of them has
    already run, the cheapest path that it can still change to is kept as well.

    Args:
        space: of the network.
        forecast: of times on the idle device.
        quality: of the paths.
        number: of levels, at least 1; see `paths_to_keep`.

    Returns:
        In the order of the space. All paths, where there are no more than `number`.
    """
    paths = list(space)
    if len(paths) <= number:
        return tuple(paths)
    times_ms = dict(zip(paths, forecast.table(paths)))
    names = {str(path): path for path in paths}
    best = paths_to_keep([Candidate(name, float(times_ms[path]), float(value))
                          for (name, path), value in zip(names.items(), quality.table(paths))], number)
    kept = {names[name] for name in best}
    for name in best:
        for segment in range(1, len(space.segments)):
            kept.add(min(space.continuations(names[name], segment), key=times_ms.__getitem__))
    return tuple(path for path in paths if path in kept)
