"""The table at the end of a run in a terminal."""
from __future__ import annotations

from pathlib import Path


def print_closing_table(summary: dict, page: Path) -> None:
    """Prints the figures of a run and where its report lies.

    Args:
        summary: from `evaluation.summary.summarise`.
        page: the report.
    """
    from rich.console import Console
    from rich.table import Table

    table = Table(title='Detections before a moving deadline', show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify='right', no_wrap=True)
    table.add_column(style='dim')
    sent, delivered = summary['frames_sent'], summary['frames_delivered']
    table.add_row('images sent', str(sent), f'{delivered} delivered, {summary["frames_replaced"]} replaced by a newer '
                                            f'one, {summary["frames_lost"]} lost')
    table.add_row('deadline misses', _percent(summary['deadline_miss_ratio']), 'of the delivered frames' + (
        f'; {summary["frames_age_unknown"]} of unknown age left out' if summary['frames_age_unknown'] else ''))
    table.add_row('feasible ones missed', _percent(summary['feasible_miss_ratio']),
                  f'of {summary["feasible_frames"]} frames that some path fitted; below '
                  f'{_percent(summary["feasible_miss_upper_95"])} with 95 % confidence')
    table.add_row('infeasible frames', _percent(summary['infeasible_ratio']), 'not even the cheapest path fitted')
    ap50 = summary['ap50']
    table.add_row('AP50', '-' if ap50 is None else f'{100 * ap50:.1f}',
                  'no ground truth' if ap50 is None else 'over all images sent')
    table.add_row('paths used', str(summary['distinct_paths']), f'{summary["path_switches"]} switches')
    for label, key, unit in (('latency', 'latency_ms', 'ms'), ('bound', 'bound_ms', 'ms'),
                             ('overhead', 'overhead_ms', 'ms'), ('one decision', 'decision_us', 'µs')):
        spread = summary[key]
        if spread['p50'] is not None:
            table.add_row(label, f'{spread["p50"]:.1f} {unit}', f'p95 {spread["p95"]:.1f}, p99 {spread["p99"]:.1f}, '
                                                                f'max {spread["max"]:.1f}')
    console = Console()
    console.print(table)
    console.print(f'Report: {page}', soft_wrap=True, highlight=False, markup=False)


def _percent(share: float | None) -> str:
    return '-' if share is None else f'{100 * share:.2f} %'
