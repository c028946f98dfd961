"""Writes the tables of docs/results.md and of the model card that a later run replaces, from the files in results/.

    python benchmarks/results_page.py

Each stands between `<!-- NAME -->` and `<!-- end -->`; what is around them is written by hand. A test compares them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE, CARD = ROOT / 'docs' / 'results.md', ROOT / 'models' / 'street.md'
RESULTS = ROOT / 'benchmarks' / 'results'
CONDITIONS = {
    'alone': 'alone',
    'beside 2 co-runners': 'loaded',
    'beside 2 co-runners, priority off': 'loaded, `priority: off`',
}
BEST_PATHS = 20  # that the model card shows
LEAST_AP50 = 25.0  # of vehicles, of public detectors that are shown
PEER_POLICIES = (  # or what their names begin with
    'clairvoyant',
    'ours',
    'ours without second looks',
    'ours without decisions on the way',
    'static p99',
    'static p99, sequences',
    'ALERT',
    'conformal PID',
    'expected utility',
    'thresholds',
    'pressure tiers',
    'street-first, static p99',
    'best fixed sequence',
)


def read(name: str) -> dict:
    """What a benchmark wrote."""
    return json.loads((RESULTS / f'{name}.json').read_text(encoding='utf-8'))


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """As Markdown."""
    return '\n'.join(f'| {" | ".join(line)} |' for line in (titles, ['---'] * len(titles), *rows))


def percent(share: float) -> str:
    """With a digit."""
    return f'{100 * share:.1f} %'


def claim() -> str:
    """Misses of the frames that the detector promised."""
    rows = []
    for key, name in CONDITIONS.items():
        load = read('deadlines')['loads'][key]
        feasible = load['feasible']
        rows.append(
            (
                name,
                f'{feasible["misses"]} of {feasible["frames"]:,}',
                f'{100 * feasible["upper_95"]:.2f} %',
                percent(load['infeasible_ratio']),
            )
        )
    return table(('condition', 'feasible frames missed', '95 % limit', 'infeasible'), rows)


def policies() -> str:
    """AP of policies in each replayed condition, and the share of images that an own answer reached in time."""
    conditions = read('replay')['conditions']
    rows = []
    for policy in PEER_POLICIES:
        cells = []
        for found in conditions.values():
            row = found.get(policy) or next(
                row for name, row in found.items() if name.startswith(policy)
            )
            cells.append(f'{row["ap"]:.1f}, {percent(row["own_of_possible"])}')
        rows.append((policy, *cells))
    return table(('policy: AP, own answers in time', *conditions), rows)


def streets() -> str:
    """AP50 of paths and of public detectors over their time, on real images."""
    sources = {name: source['rows'] for name, source in read('street_accuracy')['sources'].items()}

    def ap50(source: str, name: str, kind: str) -> str:
        return (
            f'{sources[source][name][kind]["ap50"]:.1f}'
            if kind in sources[source].get(name, {})
            else ''
        )

    times = {name: row['ms'] for name, row in sources['bdd100k'].items()}
    ours = {name for name in times if name.startswith('ours')}
    peers = {
        name
        for name, row in sources['bdd100k'].items()
        if row['vehicle']['ap50'] >= LEAST_AP50 and not name.startswith('left')
    }
    shown = sorted(ours | peers, key=times.get)
    of_others = {'dhaka': 'vehicle', 'carla': 'vehicle', 'coco': 'person', 'penn_fudan': 'person'}
    return table(
        (
            *('detector', 'ms', 'vehicle', 'person', 'bike'),
            *('vehicle, Dhaka', 'vehicle, CARLA', 'person, COCO', 'person, near'),
        ),
        (
            (
                f'**ours** `{name[5:]}`' if name in ours else name,
                f'{times[name]:.1f}',
                *(ap50('bdd100k', name, kind) for kind in ('vehicle', 'person', 'bike')),
                *(ap50(source, name, kind) for source, kind in of_others.items()),
            )
            for name in shown
        ),
    )


def demo() -> str:
    """Each run of the demo's drive."""

    def spread(values: list[float], form: str) -> str:
        return f'{format(min(values), form)} to {format(max(values), form)}'

    rows = []
    runs = read('demo_drive')['runs']
    for programs in sorted({run['busy_programs'] for run in runs}):
        group = [run for run in runs if run['busy_programs'] == programs]
        rows.append(
            (
                str(programs),
                str(len(group)),
                *(
                    spread([100 * run[key] for run in group], '.1f') + ' %'
                    for key in ('feasible_miss_ratio', 'deadline_miss_ratio', 'infeasible_ratio')
                ),
                spread([100 * run['ap50'] for run in group], '.1f'),
            )
        )
    heads = 'busy programs | runs of 320 images | feasible frames missed | deadlines missed | infeasible'
    return table((*heads.split(' | '), 'AP50'), rows)


def quality() -> str:
    """The most accurate paths of the table that the decision goes by."""
    paths = json.loads(CARD.with_suffix('.quality.json').read_text(encoding='utf-8'))['paths']
    kinds = ('vehicle', 'person', 'traffic_light', 'traffic_sign')
    best = sorted(paths.items(), key=lambda path: -path[1]['pooled_ap'])[:BEST_PATHS]
    return table(
        ('path', 'ranked, AP', 'all classes', *(kind.replace('_', ' ') for kind in kinds)),
        (
            (
                f'`{name}`',
                f'{100 * row["pooled_ap"]:.1f}',
                f'{100 * row["ap50"]:.1f}',
                *(f'{100 * row["per_class"][kind]["ap50"]:.1f}' for kind in kinds),
            )
            for name, row in best
        ),
    )


TABLES = {
    PAGE: {'claim': claim, 'policies': policies, 'streets': streets, 'demo': demo},
    CARD: {'quality': quality},
}


def rewritten(file: Path) -> str:
    """A page with every table as its file has it."""
    page = file.read_text(encoding='utf-8')
    for name, make in TABLES[file].items():
        page, found = re.subn(
            rf'(<!-- {name} -->\n)(?:.*?\n)??(<!-- end -->)',
            lambda match: f'{match[1]}{make()}\n{match[2]}',
            page,
            flags=re.DOTALL,
        )
        if found != 1:
            raise ValueError(f'{file.name} has {found} places for the table {name}, expected one')
    return page


def main() -> int:
    for file in TABLES:
        file.write_text(rewritten(file), encoding='utf-8')
    return 0


if __name__ == '__main__':
    sys.exit(main())
