"""A set of the default network and all public detectors in the running nodes, and each of them alone.

    python benchmarks/own_models_drive.py [--set all.yaml] [--load 1]

Adopts `street` and every file of --models into one set by one command, or takes the set of an earlier run, and each
model of it as a set of its own. `deadline-perception demo` then plays the same dashcam images (BDD100K, which no public
detector was trained on) to the nodes beside busy programs: once with all, and once with each alone. Prints and
writes which model ran when, late images, bounds, and AP50 beside that of each model alone.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

from own_models import CLASSES, MERGED, MODELS
from parts.harness import PUBLIC_DATA, Run, run_command, run_script, show

from deadline_perception.extras.external_models.model_set.set_file import SetFile


def main(run: Run) -> None:
    args = run.args
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        renamed, data = folder / 'names.json', args.data / 'val.json'
        renamed.write_text(json.dumps(MERGED))
        adopt = ['--data', data, '--rename', renamed, '--threads', '1']
        together = args.set
        if together is None:
            together = folder / 'all.yaml'
            classes = [word for model in MODELS for word in ('--classes', ','.join(model.classes))]
            run_command(
                'adopt',
                'street',
                *(args.models / model.file for model in MODELS),
                *classes,
                *adopt,
                '--out',
                together,
            )
        content = SetFile.load(together)
        sets = {'all': together}
        for spec in content.models:
            alone = folder / spec.name / 'set.yaml'
            alone.parent.mkdir()
            replace(content, models=(spec,)).save(alone)
            run_command(
                'adopt',
                alone,
                *adopt,
                '--limit',
                '40',
                '--float-only',
                '--minutes',
                '0.5',
                '--out',
                alone,
            )
            sets[spec.name] = alone
        found = {}
        for model, file in sets.items():
            out = folder / f'demo_{model}'
            run_command(
                'demo',
                '--model',
                file,
                '--source',
                data,
                '--classes',
                renamed,
                '--load',
                args.load,
                '--seconds',
                args.seconds,
                '--out',
                out,
            )
            found[model] = json.loads((out / 'summary.json').read_text())
    rows = [_row(model, summary) for model, summary in found.items()]
    show(
        'in the running nodes, beside busy programs; AP50 in percent',
        (
            'models',
            'delivered',
            'late',
            'infeasible',
            'models used',
            'switches',
            'latency p50 / p99 ms',
            'bound ms',
            *CLASSES,
        ),
        rows,
    )
    show(
        'with all of them: what ran',
        ('model or path', 'images', 'network p50 ms', 'bound p50 ms', 'late'),
        [
            (
                path,
                use['frames'],
                round(use['network_p50_ms'], 1),
                round(use['bound_p50_ms'], 1),
                use['misses'],
            )
            for path, use in found['all']['paths'].items()
        ],
    )
    run.write(load=args.load, runs=found)


def _row(model: str, summary: dict) -> tuple:
    latency = summary['latency_ms']
    used = len({path.split('-')[0].split(':')[0] for path in summary['paths']})
    return (
        model,
        f'{summary["frames_delivered"]} of {summary["frames_sent"]}',
        summary['deadline_misses'],
        round(summary['infeasible_ratio'] * summary['frames_sent']),
        used,
        summary['path_switches'],
        f'{latency["p50"]:.0f} / {latency["p99"]:.0f}',
        round(summary['bound_ms']['p50']),
        *(
            round(100 * (summary['ap_per_class'].get(name, {}).get('ap50') or 0.0), 1)
            for name in CLASSES
        ),
    )


if __name__ == '__main__':
    run_script(
        main,
        {
            **PUBLIC_DATA,
            '--set': {'type': Path, 'help': 'set of models of an earlier run'},
            '--load': {'type': int, 'default': 1, 'help': 'busy programs beside the nodes'},
            '--seconds': {'type': float, 'default': 32.0, 'help': 'of each run'},
        },
    )
