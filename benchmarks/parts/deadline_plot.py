"""Draws what deadlines.py wrote: misses and average precision of every policy, latency over time, precision by
budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

GOAL_MISSES = 0.01
ORACLE = 'median clairvoyant'
TRACED = ('oblivious', 'frontier')  # whose budget and latency in ms are kept for every frame
_COLOURS = {
    'frontier': 'tab:blue',
    'frontier, long part': 'tab:blue',
    'oblivious': 'tab:orange',
    'reactive_1': 'tab:purple',
    ORACLE: 'tab:green',
}
_OTHERS = 'tab:gray'
_BY_BUDGET = ('frontier', 'oblivious', 'reactive_1', ORACLE)


def draw(result: dict, file: Path) -> None:
    """Draws the content of deadlines.json, a column for each load, into a picture."""
    from matplotlib.figure import Figure

    loads = result['loads']
    figure = Figure(figsize=(7.5 * len(loads), 16.0), layout='constrained')
    rows = figure.subplots(
        4, len(loads), sharex='row', sharey='row', squeeze=False, height_ratios=(1.2, 1.1, 1.2, 1.0)
    )
    figure.suptitle(
        f'Policies on {result["data"]}, {result["device"]}, {result["date"]}', fontsize=13
    )
    for column, (load, found) in zip(rows.T, loads.items()):
        _draw_misses(column[0], found)
        long_frames = found['long_part']['frontier']['frames']
        column[0].set_title(
            f'{load}: {found["frames"]} frames; long part: {long_frames}', fontsize=12
        )
        _draw_precision(column[1], found['policies'])
        _draw_latency(column[2], found['policies'])
        _draw_budgets(column[3], found['policies'])
    for row, label in zip(rows[2:, 0], ('capture to detections, ms', 'AP, 0 to 100')):
        row.set_ylabel(label)
    reach = max(
        row['ap_interval_95'][1] or row['ap'] or 0.0
        for found in loads.values()
        for row in found['policies'].values()
    )
    rows[1, 0].set_xlim(0.0, 112.0 * reach + 1.0)  # room for the figures beside the bars
    figure.savefig(file, dpi=80)


def long_part(name: str) -> str:
    """What a policy is called in the long part."""
    return f'{name}, long part'


def ranges(budgets_ms: Sequence[float], ends_ms: Sequence[float]) -> list[str]:
    """Words for ranges of budgets that follow each other.

    Args:
        budgets_ms: all of them.
        ends_ms: the largest of each range, ascending; equal ones where a budget fills a range.
    """
    return [
        f'{end_ms:.0f} ms' if end_ms == begin_ms else f'{begin_ms:.0f} to {end_ms:.0f} ms'
        for begin_ms, end_ms in zip([min(budgets_ms), *ends_ms], ends_ms)
    ]


def _draw_misses(axes, found: dict) -> None:
    rows = {
        **{name: row['possible'] for name, row in found['policies'].items()},
        **{long_part(name): row['possible'] for name, row in found['long_part'].items()},
    }
    shares = [100.0 * (row['ratio'] or 0.0) for row in rows.values()]
    axes.barh(list(rows), shares, color=[_COLOURS.get(name, _OTHERS) for name in rows])
    for place, (share, row) in enumerate(zip(shares, rows.values())):
        axes.text(share + 2.0, place, f'{row["misses"]} of {row["frames"]}', va='center')
    axes.axvline(
        100.0 * GOAL_MISSES,
        color='tab:red',
        linewidth=1.0,
        label=f'goal: at most {GOAL_MISSES:.0%}',
    )
    axes.set(
        xlim=(0.0, 125.0),
        xticks=range(0, 101, 20),
        xlabel='missed of the frames that could be met, %',
    )
    axes.set_ylim(len(rows) - 0.5, -0.5)  # the first at the top
    axes.legend(loc='upper right')


def _draw_precision(axes, policies: dict) -> None:
    for place, (name, row) in enumerate(policies.items()):
        if row['ap'] is None:
            continue
        low, high = (row['ap'] if limit is None else limit for limit in row['ap_interval_95'])
        axes.barh(place, 100.0 * row['ap'], color=_COLOURS.get(name, _OTHERS))
        axes.plot([100.0 * low, 100.0 * high], [place, place], color='black', linewidth=1.2)
        axes.text(100.0 * high + 0.6, place, f'{100.0 * row["ap"]:.1f}', va='center')
    axes.set_yticks(range(len(policies)), list(policies))
    axes.set(
        xlabel="AP with its 95 % interval, 0 to 100; a clairvoyant's late detections count too",
        ylim=(len(policies) - 0.5, -0.5),
    )


def _draw_latency(axes, policies: dict) -> None:
    budgets_ms = [budget_ms for budget_ms, _ in policies['frontier']['trace']]
    axes.step(
        range(len(budgets_ms)),
        budgets_ms,
        where='mid',
        color='black',
        linewidth=1.6,
        label='budget',
    )
    for name in TRACED:
        latency_ms = [total_ms for _, total_ms in policies[name]['trace']]
        axes.plot(latency_ms, color=_COLOURS[name], linewidth=1.0, label=name)
        late = [
            number for number, budget_ms in enumerate(budgets_ms) if latency_ms[number] > budget_ms
        ]
        if late:
            axes.plot(
                late,
                [latency_ms[number] for number in late],
                'x',
                color=_COLOURS[name],
                markersize=8,
                markeredgewidth=2.0,
                label=f'{name}, late',
            )
    axes.set(xlabel='frame', ylim=(0.0, None))
    axes.legend(loc='lower right')


def _draw_budgets(axes, policies: dict) -> None:
    labels = ranges(
        [budget_ms for budget_ms, _ in policies['frontier']['trace']],
        [part['to_ms'] for part in policies['frontier']['by_budget']],
    )
    width = 0.8 / len(_BY_BUDGET)
    for place, name in enumerate(_BY_BUDGET):
        axes.bar(
            [number + (place - (len(_BY_BUDGET) - 1) / 2) * width for number in range(len(labels))],
            [100.0 * (part['ap'] or 0.0) for part in policies[name]['by_budget']],
            width,
            color=_COLOURS[name],
            label=name,
        )
    axes.set_xticks(range(len(labels)), labels)
    axes.set_xlabel('budget; each range holds as many frames')
    axes.legend(loc='upper left')
