"""What the figures of a run mean, in words: the verdict, its banner of wasted time, and the numbers at the top."""

from __future__ import annotations

from html import escape

from deadline_perception.core.errors import command_line
from deadline_perception.extras.report.summary import unscored_words

ACCEPTED_MISS_RATIO = 0.02  # on an idle machine
_LOOSE_BOUNDS = 2.5  # times what the network took, median
_MOST_SMALLER = 0.1  # share of frames that ran a smaller network than would have fitted


def verdict(summary: dict) -> tuple[str, str]:
    """How the run of a summary went, `good`, `fair` or `bad`, and one sentence that says so.

    It is fair when frames that a bound fitted were kept, but too many others were missed; and bad when even those were
    not, or images were lost.
    """
    judged = frames_judged(summary)
    in_time = judged - summary['deadline_misses']
    ratio = summary['feasible_miss_ratio']
    sentence = f'<b>{in_time} of {judged} delivered frames came in time.</b> '
    if summary['frames_age_unknown']:
        sentence += (
            f'{summary["frames_age_unknown"]} further ones had no valid stamp, so nobody knows how old they '
            f'were. '
        )
    if not judged:
        return 'bad', sentence + 'Without a stamp no deadline can be judged.'
    if ratio is None:
        return (
            'bad',
            sentence + 'The time allowed was too short for even the cheapest path on every frame.',
        )
    sentence += f'Where the bound of some path fitted, {_percent(ratio)} of {summary["feasible_frames"]} frames missed'
    held_up = summary['held_up_frames']
    unpromised = judged - summary['feasible_frames'] - held_up
    if unpromised:
        sentence += (
            f'; on {unpromised} no bound fitted, and '
            f'{summary["deadline_misses"] - summary["feasible_misses"] - held_up} of those missed'
        )
    if held_up:
        sentence += f'; {held_up} waited for the frame before until their deadline'
    sentence += f'. {summary["frames_lost"] or "No"} image{"s were" if summary["frames_lost"] > 1 else " was"} lost.'
    if max(ratio, held_up / judged) >= ACCEPTED_MISS_RATIO or summary['frames_lost']:
        return 'bad', sentence
    return 'good' if summary['deadline_miss_ratio'] < ACCEPTED_MISS_RATIO else 'fair', sentence


def numbers(summary: dict) -> list[tuple[str, str, str]]:
    """Label, value and plain words of each number at the top."""
    latency, overhead, decision = (
        summary['latency_ms'],
        summary['overhead_ms'],
        summary['decision_us'],
    )
    return [
        (
            'Missed although possible',
            _percent(summary['feasible_miss_ratio']),
            f'{summary["feasible_misses"]} of {summary["feasible_frames"]} frames that the bound of some path fitted. The '
            f'true rate is below {_percent(summary["feasible_miss_upper_95"])} with 95 % confidence.',
        ),
        (
            'No promise possible',
            _percent(summary['infeasible_ratio']),
            f"Frames whose time was too short for even the cheapest path's bound. {_lucky(summary)} of these "
            f'{_infeasible(summary)} were in time all the same. All misses together: '
            f'{_percent(summary["deadline_miss_ratio"])}.',
        ),
        (
            'Accuracy (AP50)',
            '–' if summary['ap50'] is None else f'{100 * summary["ap50"]:.1f}',
            f'Not scored: {unscored_words(summary)}.'
            if summary['ap50'] is None
            else 'Out of 100, over every image sent, including those for which only older detections were there.'
            + _left_out(summary),
        ),
        (
            'Latency',
            f'{_rounded(latency["p50"])} ms',
            f'Median from image to detections; 99 % took at most '
            f'{_rounded(latency["p99"])} ms, the longest {_rounded(latency["max"])} ms.',
        ),
        (
            'Paths used',
            str(summary['distinct_paths']),
            f'Different ways through the network; it changed {summary["path_switches"]} times from one frame to the next, '
            f'and re-planned {summary["replanned_frames"]} frames while they ran.',
        ),
        (
            'Cost of deciding',
            f'{_rounded(decision["p50"])} µs',
            f'Median of one decision (99 %: '
            f'{_rounded(decision["p99"])} µs). All of the node outside the network: {_rounded(overhead["p50"])} ms.',
        ),
    ]


def _left_out(summary: dict) -> str:
    boxes = sum(summary['unscored_objects'].values())
    return f' Without {boxes} known boxes of classes that the network has not.' if boxes else ''


def frames_judged(summary: dict) -> int:
    """Delivered frames of known age: those that met or missed their deadline."""
    return summary['frames_delivered'] - summary['frames_age_unknown']


def _lucky(summary: dict) -> int:
    """Infeasible frames that came in time."""
    return _infeasible(summary) - (
        summary['deadline_misses'] - summary['feasible_misses'] - summary['held_up_frames']
    )


def _infeasible(summary: dict) -> int:
    return frames_judged(summary) - summary['feasible_frames'] - summary['held_up_frames']


def _percent(share: float | None) -> str:
    if share is None:
        return '–'
    return f'{100 * share:.1f} %' if share == 0 or share >= 0.001 else f'{100 * share:.2g} %'


def _rounded(value: float | None) -> str:
    if value is None:
        return '–'
    return f'{value:.0f}' if value >= 20 else f'{value:.1f}'


def waste(summary: dict) -> str:
    """What makes frames worse than they need be, and the remedy, as markup; empty where bounds are tight enough."""
    ratio, smaller = summary['bound_over_network'], summary['smaller_frames']
    delivered = summary['frames_delivered']
    if ratio is None or not (ratio > _LOOSE_BOUNDS or smaller > _MOST_SMALLER * delivered):
        return ''
    lost = 100 * summary['smaller_quality']
    cost = f' (about {lost:.0f} points of expected AP)' if lost >= 1.0 else ''
    smaller_words = (
        f': {smaller} of {delivered} frames ran a smaller network than would have fitted{cost}'
        if smaller
        else ''
    )
    return (
        f'<b>Bounds are {ratio:.1f} times what frames took</b>{smaller_words}. Times were measured on a busy machine, or '
        f'too few of them: measure again while nothing else runs, <code>{escape(command_line("profile"))}</code>.'
    )
