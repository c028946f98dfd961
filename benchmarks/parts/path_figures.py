"""What path_accuracy.py says about its measurements: goals with their verdicts, the tables and the plot."""
from __future__ import annotations

from pathlib import Path

from rich.console import Console

from deadline_perception.core.execution_path import WIDTH, ExecutionPath, PathSpace
from parts.harness import Run, show
from parts.held_out_choice import EXPECTED, MEASURED

NESTED_POINTS = 0.5  # a path with no operator smaller should not be worse by more than this


def short_name(classes: list[str]) -> str:
    """A mean over classes as a column's head: `V+L` for vehicle and traffic_light."""
    return '+'.join(name.split('_')[-1][0].upper() for name in classes)


def judge_goals(run: Run, result: dict, space: PathSpace) -> None:
    """Judges the figures, each with the images that it is judged by."""
    full = next(row for row in result['paths'] if row['path'] == str(space.largest))
    in_turn = [row for row in result['held_out'] if row['split'] == 0 and row['by'] == EXPECTED]
    longest, shortest = (choose(row['ms'] for row in result['paths']) for choose in (max, min))
    ranking = f'({len(result["ranked_by"])} classes, {result["images"]} images)'
    pooled = f'({short_name(result["pooled_classes"])}, {result["pooled_images"]} images)'
    run.goal(f'AP of the full path ({result["pooled_images"]} images)', full['ap'], least=40.0)
    run.goal(f'AP of the full path {pooled}', full['pooled'], least=51.2)
    run.goal('longest over shortest path', longest / shortest, least=20.0)
    run.goal(f'useful points of the frontier {ranking}', min(len(row['useful']) for row in in_turn), least=15)
    run.goal(f'operators that pay beyond {result["pays_beyond"]} {ranking}',
             sum(row['pays'] for row in result['operators']), least=len(result['operators']))
    run.goal(f'points of the best other path, chosen on other images, over the full one {ranking}',
             result['worth_of_expected'][EXPECTED]['best_other_over_full'], most=0.0)


def plot(result: dict, space: PathSpace, file: Path) -> None:
    """Above, the expected AP by which paths are chosen; below, the measured one."""
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot

    figure, (above, below) = pyplot.subplots(2, figsize=(8.6, 8.8), height_ratios=(1.25, 1), layout='constrained')
    plot_paths(above, result, [(space.parse(row['path']), row) for row in result['paths']], space)
    lines = (('paths', '#16202c', '-', f'as shipped ({result["engine"].split()[0]})'),
             ('eager', '#8a63c2', '--', 'the same weights in eager PyTorch'))
    for key, colour, style, words in lines:
        points = measured_frontier(result[key])
        if points:
            below.plot(*zip(*points), color=colour, linewidth=1.5, linestyle=style, drawstyle='steps-post', label=words)
            below.scatter(*zip(*points), s=14, color=colour, zorder=3)
    below.set_title(f'frontiers as measured on {result["pooled_images"]} images of {result["pooled_dataset"]}',
                    loc='left', fontsize=11)
    below.set_ylabel('average precision of\n' + ', '.join(result['pooled_classes']) + ', %')
    device = result['device']
    for axes in (above, below):
        axes.set_xlabel(f'time of a frame, ms (median, {device["name"]}, {device["threads"]} '
                        f'thread{"s" * (device["threads"] > 1)})')
    style_axes(above, [row['ms'] for row in result['paths']])
    style_axes(below, [row['ms'] for key, *_ in lines for row in result[key]])
    above.margins(y=0.09)  # room for the word above the full path
    above.legend(fontsize=8, frameon=False, loc='upper left')
    below.legend(fontsize=9, frameon=False, loc='lower right')
    figure.savefig(file, dpi=120)


def measured_frontier(rows: list[dict]) -> list[tuple[float, float]]:
    """Time, ms, and pooled AP of the rows that none beats in both, the shortest first."""
    points: list[tuple[float, float]] = []
    for row in sorted(rows, key=lambda row: (row['ms'], -row['pooled'])):
        if not points or row['pooled'] > points[-1][1]:
            points.append((row['ms'], row['pooled']))
    return points


def plot_paths(axes, result: dict, rows: list[tuple[ExecutionPath, dict]], space: PathSpace) -> None:
    """Every path as a dot at its expected value, joined to the measured one; the frontier as a line through dots."""
    widths = [operator.name for operator in space.of_kind(WIDTH)]
    colours = dict(zip(reversed(space.operator(widths[0]).settings),
                       ('#0f4c8f', '#2f7cc4', '#3aa17e', '#e0923a', '#c95d94')))
    markers = dict(zip(reversed(space.operator(widths[-1]).settings), 'o^sDv'))
    line = [row for _, row in rows if row['path'] in result['frontier']]
    axes.plot([row['ms'] for row in line], [row['expected'] for row in line], color='#16202c', linewidth=1.6, zorder=2,
              drawstyle='steps-post', label='frontier')
    ms, expected, measured = ([row[key] for _, row in rows] for key in ('ms', 'expected', 'ranked'))
    axes.vlines(ms, expected, measured, color='#9aa8b6', linewidth=0.9, zorder=1, label='to the measured value')
    for width, colour in colours.items():
        for pyramid, marker in markers.items():
            chosen = [row for path, row in rows if (path[widths[0]], path[widths[-1]]) == (width, pyramid)]
            axes.scatter([row['ms'] for row in chosen], [row['expected'] for row in chosen], s=30, color=colour,
                         marker=marker, edgecolor='white', linewidth=0.6, zorder=3,
                         label=f'width {width:g}, pyramid {pyramid:g}')
    for wanted, text in ((space.largest, 'full'), (space.smallest, 'cheapest')):
        at = next((row['ms'], row['expected']) for path, row in rows if path == wanted)
        axes.scatter(*at, s=90, facecolor='none', edgecolor='#16202c', zorder=4)
        axes.annotate(text, at, xytext=(0, 10), textcoords='offset points', ha='center', color='#16202c', zorder=5,
                      bbox={'facecolor': 'white', 'alpha': 0.8, 'edgecolor': 'none', 'pad': 1.0})
    axes.set_ylabel(f'expected average precision,\nmean of {len(result["ranked_by"])} classes, %')
    axes.set_title(f'{len(rows)} execution paths of one network on {result["images"]} images', loc='left', fontsize=11)


def style_axes(axes, ms: list[float]) -> None:
    """Ticks, grid and frame of an axis of times in ms, logarithmic."""
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    axes.set_xscale('log')
    axes.set_xticks([tick for tick in (2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500)
                     if 0.9 * min(ms) <= tick <= 1.1 * max(ms)], minor=False)
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(color='#e1e5ea', linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[['top', 'right']].set_visible(False)


def print_tables(result: dict) -> None:
    """Goals, frontier, operators and, where given, paths trained alone."""
    console = Console(width=max(Console().width, 144))

    in_turn = [row for row in result['held_out'] if row['split'] == 0 and row['by'] == EXPECTED]
    useful_once = {path for row in in_turn for path in row['useful']}
    ranking, pooled = f'{len(result["ranked_by"])} classes', short_name(result['pooled_classes'])
    console.print(f'{ranking}: mean AP of {", ".join(result["ranked_by"])} on {result["images"]} images of '
                  f'{result["dataset"]}; {pooled}: mean AP of {", ".join(result["pooled_classes"])}, and all other '
                  f'AP, on {result["pooled_images"]} images of {result["pooled_dataset"]}', soft_wrap=True)
    show(f'frontier by the expected AP of {ranking} (* useful on held-out images)',
         ('path', 'ms', ranking, 'expected', 'AP', 'AP50', pooled),
         [(row['path'] + ' *' * (row['path'] in useful_once), row['ms'], row['ranked'], row['expected'], row['ap'],
           row['ap50'], row['pooled']) for row in result['paths'] if row['path'] in result['frontier']])
    show(f'operators: largest less smallest setting; pays: by {ranking}, beyond {result["pays_beyond"]}',
         ('operator', 'saves ms', ranking, '95 %', 'seeds: mean', 'range', 'pays', 'AP', pooled),
         [(row['operator'], row['saves_ms'], row['ranked_points'], spanned(row['interval_points']),
           row['mean_of_seeds'], row['spread_of_seeds'], 'yes' if row['pays'] else 'no', row['ap_points'],
           row['pooled_points']) for row in result['operators']])
    if result['eager']:
        show('the same weights in eager PyTorch', ('path', 'ms', 'AP', 'AP50', pooled),
             [tuple(row[name] for name in ('path', 'ms', 'ap', 'ap50', 'pooled')) for row in result['eager']])
    for row in in_turn:
        console.print(f'frontier chosen on half of the images: {row["points"]} points, {row["useful_where_chosen"]} of '
                      f'them useful there, {len(row["useful"])} on the other half')
    for key, what in (('worth_of_expected', 'every path measured'),
                      ('worth_of_expected_sample', 'the sample measured, the others predicted')):
        worth = result[key]
        gains = worth['gain_points_of_splits']
        console.print(f'chosen on half of the images, AP of {ranking} on the other half, mean over times allowed '
                      f'({what}): {worth[MEASURED]["realised"]:.2f} by measured values (looked '
                      f'{worth[MEASURED]["optimism"]:.2f} better), {worth[EXPECTED]["realised"]:.2f} by expected ones '
                      f'({worth[EXPECTED]["optimism"]:.2f}); gain {worth["gain_points"]:.2f}, from {min(gains):.2f} '
                      f'to {max(gains):.2f} over {len(gains)} ways to halve', soft_wrap=True)
    order = result['monotonicity']
    console.print(f'{len(result["paths"])} paths on {result["images"]} images; rank correlation of time and '
                  f'AP of {ranking} {order["rank_correlation_of_time_and_quality"]:.2f}; of {order["nested_pairs"]} '
                  f'pairs of nested paths the larger one is worse by over {NESTED_POINTS} points in '
                  f'{order["nested_pairs_larger_is_worse"]}')
    console.print(f'error of predicting a path from the others: {result["prediction_error_text"]}; of a path\'s '
                  f'distance from its prediction {result["trust"]:.0%} count as its own', soft_wrap=True)


def spanned(interval_points: list[float]) -> str:
    """An interval as a table shows it."""
    return f'{interval_points[0]:.1f} to {interval_points[1]:.1f}'
