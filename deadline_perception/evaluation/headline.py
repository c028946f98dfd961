"""A run's figures in plain words: the verdict and the numbers at the top of the report."""
from __future__ import annotations

ACCEPTED_MISS_RATIO = 0.02  # on an idle machine


def verdict(summary: dict) -> tuple[str, str]:
    """How the run went, `good`, `fair` or `bad`, and one sentence that says so.

    It is fair when frames that a bound fitted were kept, but too many others were missed; and bad when even those were
    not, or images were lost.

    Args:
        summary: from `summarise`.
    """
    judged = frames_judged(summary)
    in_time = judged - summary['deadline_misses']
    ratio = summary['feasible_miss_ratio']
    sentence = f'<b>{in_time} of {judged} delivered frames came in time.</b> '
    if summary['frames_age_unknown']:
        sentence += (f'{summary["frames_age_unknown"]} further ones had no valid stamp, so nobody knows how old they '
                     f'were. ')
    if not judged:
        return 'bad', sentence + 'Without a stamp no deadline can be judged.'
    if ratio is None:
        return 'bad', sentence + 'The time allowed was too short for even the cheapest path on every frame.'
    sentence += f'Where the bound of some path fitted, {_percent(ratio)} of {summary["feasible_frames"]} frames missed'
    unpromised = judged - summary['feasible_frames']
    if unpromised:
        sentence += (f'; on {unpromised} no bound fitted, and '
                     f'{summary["deadline_misses"] - summary["feasible_misses"]} of those missed')
    sentence += f'. {summary["frames_lost"] or "No"} image{"s were" if summary["frames_lost"] > 1 else " was"} lost.'
    if ratio >= ACCEPTED_MISS_RATIO or summary['frames_lost']:
        return 'bad', sentence
    return 'good' if summary['deadline_miss_ratio'] < ACCEPTED_MISS_RATIO else 'fair', sentence


def numbers(summary: dict) -> list[tuple[str, str, str]]:
    """Label, value and plain words of each number at the top.

    Args:
        summary: from `summarise`.
    """
    latency, overhead, decision = summary['latency_ms'], summary['overhead_ms'], summary['decision_us']
    return [
        ('Missed although possible', _percent(summary['feasible_miss_ratio']),
         f'{summary["feasible_misses"]} of {summary["feasible_frames"]} frames that the bound of some path fitted. The '
         f'true rate is below {_percent(summary["feasible_miss_upper_95"])} with 95 % confidence.'),
        ('No promise possible', _percent(summary['infeasible_ratio']),
         f'Frames whose time was too short for even the cheapest path\'s bound. {_lucky(summary)} of these '
         f'{frames_judged(summary) - summary["feasible_frames"]} were in time all the same. All misses together: '
         f'{_percent(summary["deadline_miss_ratio"])}.'),
        ('Accuracy (AP50)', '–' if summary['ap50'] is None else f'{100 * summary["ap50"]:.1f}',
         'The source has no ground truth.' if summary['ap50'] is None else
         'Out of 100, over every image sent, including those for which only older detections were there.'),
        ('Latency', f'{_rounded(latency["p50"])} ms', f'Median from image to detections; 99 % took at most '
         f'{_rounded(latency["p99"])} ms, the longest {_rounded(latency["max"])} ms.'),
        ('Paths used', str(summary['distinct_paths']),
         f'Different ways through the network; it changed {summary["path_switches"]} times from one frame to the next, '
         f'and re-planned {summary["replanned_frames"]} frames while they ran.'),
        ('Cost of deciding', f'{_rounded(decision["p50"])} µs', f'Median of one decision (99 %: '
         f'{_rounded(decision["p99"])} µs). All of the node outside the network: {_rounded(overhead["p50"])} ms.')]


def frames_judged(summary: dict) -> int:
    """Delivered frames of known age: those that met or missed their deadline."""
    return summary['frames_delivered'] - summary['frames_age_unknown']


def _lucky(summary: dict) -> int:
    """Infeasible frames that came in time."""
    infeasible = frames_judged(summary) - summary['feasible_frames']
    return infeasible - (summary['deadline_misses'] - summary['feasible_misses'])


def _percent(share: float | None) -> str:
    if share is None:
        return '–'
    return f'{100 * share:.1f} %' if share == 0 or share >= 0.001 else f'{100 * share:.2g} %'


def _rounded(value: float | None) -> str:
    if value is None:
        return '–'
    return f'{value:.0f}' if value >= 20 else f'{value:.1f}'
