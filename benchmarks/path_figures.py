"""What path_accuracy.py says about its measurements: goals with their verdicts, the tables and the plot."""
from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from deadline_perception.execution_path import PathSpace
from held_out_choice import EXPECTED, MEASURED

GOALS = {'full AP': 36.0, 'full AP50': 60.0, 'cheapest AP': 20.0, 'speed ratio': 8.0, 'useful points': 12,
         'alone, points under': 0.5, 'alone, full path, points under': 0.2}
ALONE_PATHS = 5
NESTED_POINTS = 0.5  # a path with no operator smaller should not be worse by more than this


def goal_rows(result: dict, space: PathSpace) -> list[dict]:
    """Each goal of the issue with the figure reached."""
    by_name = {row['path']: row for row in result['paths']}
    full, cheapest = by_name[str(space.largest)], by_name[str(space.smallest)]
    in_turn = [row for row in result['held_out'] if row['split'] == 0 and row['by'] == EXPECTED]
    figures = {'full AP': full['ap'], 'full AP50': full['ap50'], 'cheapest AP': cheapest['ap'],
               'speed ratio': full['ms'] / cheapest['ms'], 'useful points': min(len(row['useful']) for row in in_turn)}
    rows = [{'goal': f'{name} at least {GOALS[name]:g}', 'figure': round(figure, 2), 'met': figure >= GOALS[name]}
            for name, figure in figures.items()]
    paying = [row['operator'] for row in result['operators'] if row['pays']]
    rows.append({'goal': f'every operator pays beyond {result["pays_beyond"]}',
                 'figure': f'{len(paying)} of {len(result["operators"])}',
                 'met': len(paying) == len(result['operators'])})
    over = result['worth_of_expected'][EXPECTED]['best_other_over_full']
    rows.append({'goal': 'best other path, chosen on other images, not above the full one (points)',
                 'figure': round(over, 2), 'met': over <= 0})
    for row in result['alone']:
        rows.append({'goal': f'{row["path"]} at most {row["goal"]} AP under trained alone',
                     'figure': round(row['points_under'], 2), 'met': row['points_under'] <= row['goal']})
    if len(result['alone']) < ALONE_PATHS:
        rows.append({'goal': f'at most 0.5 AP under trained alone, on {ALONE_PATHS} paths',
                     'figure': f'{len(result["alone"])} paths measured', 'met': False})
    return rows


def plot(result: dict, space: PathSpace, file: Path) -> None:
    """Every path as a dot at its expected value, joined to the measured one; the frontier as a line through dots."""
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    colours = dict(zip(reversed(space.operator('width').settings), ('#0f4c8f', '#2f7cc4', '#3aa17e', '#e0923a', '#c95d94')))
    rows = [(space.parse(row['path']), row) for row in result['paths']]
    line = [row for row in result['paths'] if row['path'] in result['frontier']]
    figure, axes = pyplot.subplots(figsize=(8.6, 5.0), layout='constrained')
    axes.plot([row['ms'] for row in line], [row['expected'] for row in line], color='#16202c', linewidth=1.6, zorder=2,
              drawstyle='steps-post', label='frontier')
    ms, expected, measured = ([row[key] for _, row in rows] for key in ('ms', 'expected', 'pooled'))
    axes.vlines(ms, expected, measured, color='#9aa8b6', linewidth=0.9, zorder=1, label='to the measured value')
    for width, colour in colours.items():
        for pyramid, marker in zip(reversed(space.operator('pyramid_width').settings), 'o^s'):
            chosen = [row for path, row in rows if (path['width'], path['pyramid_width']) == (width, pyramid)]
            axes.scatter([row['ms'] for row in chosen], [row['expected'] for row in chosen], s=30, color=colour,
                         marker=marker, edgecolor='white', linewidth=0.6, zorder=3,
                         label=f'width {width:g}, pyramid {pyramid:g}')
    for path, text in ((space.largest, 'full'), (space.smallest, 'cheapest')):
        at = next((row['ms'], row['expected']) for row in result['paths'] if row['path'] == str(path))
        axes.scatter(*at, s=90, facecolor='none', edgecolor='#16202c', zorder=4)
        axes.annotate(text, at, xytext=(0, -18), textcoords='offset points', ha='center', color='#16202c', zorder=5,
                      bbox={'facecolor': 'white', 'alpha': 0.8, 'edgecolor': 'none', 'pad': 1.0})
    axes.set_xscale('log')
    ticks = [tick for tick in (2, 5, 10, 20, 30, 50, 70, 100, 150, 200, 300, 500) if
             0.9 * min(row['ms'] for row in result['paths']) <= tick <= 1.1 * max(row['ms'] for row in result['paths'])]
    axes.set_xticks(ticks, minor=False)
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(f'time of a frame, ms (median, {result["device"]["name"]}, {result["device"]["threads"]} thread'
                    f'{"s" * (result["device"]["threads"] > 1)})')
    axes.set_ylabel('expected average precision of\n' + ', '.join(result['ranked_by']) + ', %')
    axes.set_title(f'{len(rows)} execution paths of one network on {result["images"]} images of {result["dataset"]}',
                   loc='left', fontsize=11)
    axes.grid(color='#e1e5ea', linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[['top', 'right']].set_visible(False)
    axes.legend(fontsize=8, frameon=False, loc='lower right')
    figure.savefig(file, dpi=120)


def print_tables(result: dict) -> None:
    """Goals, frontier, operators and, where given, paths trained alone."""
    console = Console(width=max(Console().width, 124))

    def show(title: str, heads: tuple[str, ...], rows: list[tuple]) -> None:
        table = Table(title=title, title_justify='left')
        for head in heads:
            table.add_column(head, no_wrap=True, justify='left' if head == heads[0] else 'right')
        for row in rows:
            table.add_row(*('-' if value is None else f'{value:.1f}' if isinstance(value, float) else str(value)
                            for value in row))
        console.print(table)

    in_turn = [row for row in result['held_out'] if row['split'] == 0 and row['by'] == EXPECTED]
    useful_once = {path for row in in_turn for path in row['useful']}
    show(f'frontier by the expected AP of {", ".join(result["ranked_by"])} (rank; * useful on held-out images)',
         ('path', 'ms', 'AP', 'AP50', 'rank', 'expected'),
         [(row['path'] + ' *' * (row['path'] in useful_once), row['ms'], row['ap'], row['ap50'], row['pooled'],
           row['expected']) for row in result['paths'] if row['path'] in result['frontier']])
    show(f'operators: largest less smallest setting; pays: beyond {result["pays_beyond"]}',
         ('operator', 'saves ms', 'AP', 'rank', '95 %', 'seeds: mean', 'range', 'pays'),
         [(row['operator'], row['saves_ms'], row['ap_points'], row['pooled_points'], spanned(row['interval_points']),
           row['mean_of_seeds'], row['spread_of_seeds'], 'yes' if row['pays'] else 'no')
          for row in result['operators']])
    if result['alone']:
        show('against the path trained alone', ('path', 'AP', 'seeds', 'alone', 'AP under', '95 %', 'rank', 'alone'),
             [(row['path'], row['ap'], ' '.join(f'{ap:.1f}' for ap in row['ap_of_seeds']) or None, row['ap_alone'],
               row['points_under'], spanned(row['interval_points']), row['pooled'], row['pooled_alone'])
              for row in result['alone']])
    show('goals', ('goal', 'figure', 'met'),
         [(row['goal'], row['figure'], 'yes' if row['met'] else 'no') for row in result['goals']])
    for row in in_turn:
        console.print(f'frontier chosen on half of the images: {row["points"]} points, {row["useful_where_chosen"]} of '
                      f'them useful there, {len(row["useful"])} on the other half')
    for key, what in (('worth_of_expected', 'every path measured'),
                      ('worth_of_expected_sample', 'the sample measured, the others predicted')):
        worth = result[key]
        gains = worth['gain_points_of_splits']
        console.print(f'chosen on half of the images, ranking AP on the other half, mean over times allowed ({what}): '
                      f'{worth[MEASURED]["realised"]:.2f} by measured values (looked {worth[MEASURED]["optimism"]:.2f} '
                      f'better), {worth[EXPECTED]["realised"]:.2f} by expected ones '
                      f'({worth[EXPECTED]["optimism"]:.2f}); gain {worth["gain_points"]:.2f}, from {min(gains):.2f} '
                      f'to {max(gains):.2f} over {len(gains)} ways to halve', soft_wrap=True)
    order = result['monotonicity']
    console.print(f'{len(result["paths"])} paths on {result["images"]} images; rank correlation of time and AP '
                  f'{order["rank_correlation_of_time_and_quality"]:.2f}; of {order["nested_pairs"]} pairs of nested '
                  f'paths the larger one is worse by over {NESTED_POINTS} points in '
                  f'{order["nested_pairs_larger_is_worse"]}')
    console.print(f'error of predicting a path from the others: {result["prediction_error_text"]}; of a path\'s '
                  f'distance from its prediction {result["trust"]:.0%} count as its own', soft_wrap=True)


def spanned(interval_points: list[float]) -> str:
    """An interval as a table shows it."""
    return f'{interval_points[0]:.1f} to {interval_points[1]:.1f}'
