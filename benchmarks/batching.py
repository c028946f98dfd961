"""What images gain that go through a detector together: time of an image in batches of one, two and four.

    python benchmarks/batching.py [--data ../shared/data/public_models] [--rounds 40]

Public detectors by OpenVINO on the CPU, their layers alone, on one and two threads, every batch in turn. Images of
several cameras would share a batch only where that is faster than one after the other by more than the wait for the
slowest: `gain` is the median time of one image alone over that of one in the batch. Writes results/batching.json.
"""
from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import median

import numpy as np

from deadline_perception.core.device import use_threads
from deadline_perception.engines.openvino_library import cpu_settings, load_openvino, openvino_core
from onnx_engines import public_files
from parts.harness import ROOT, Run, run_script, show, timed_ms, turns

BATCHES, THREADS = (1, 2, 4), (1, 2)
WORTH = 1.2  # of a gain, below which an image had better not wait for another


def layers_of(file: Path, batch: int, threads: int):
    """A call that runs the layers of a file on a batch of noise.

    Raises:
        RuntimeError: the file takes no such batch.
    """
    openvino = load_openvino()
    model = openvino_core().read_model(file)
    model.reshape({given: [batch, *list(given.partial_shape)[1:]] for given in model.inputs})
    request = openvino_core().compile_model(model, 'CPU', cpu_settings(threads)).create_infer_request()
    rng = np.random.default_rng(0)
    for index, given in enumerate(model.inputs):
        values = rng.integers(0, 255, given.shape).astype(given.element_type.to_dtype())
        request.set_input_tensor(index, openvino.Tensor(values))
    request.infer()
    return request.infer


def main(run: Run) -> None:
    use_threads(max(THREADS))
    files = public_files(run.args.data)
    rows, skipped = [], {}
    for file in files[:1] if run.quick else files:
        for threads in THREADS:
            calls = {}
            for batch in BATCHES:
                try:
                    calls[batch] = layers_of(file, batch, threads)
                except RuntimeError as error:
                    skipped[f'{file.name} in batches of {batch}'] = str(error).strip().splitlines()[-1][:200]
            times_ms = defaultdict(list)
            for _, batch in turns(calls, 2 if run.quick else run.args.rounds):
                times_ms[batch].append(timed_ms(calls[batch]) / batch)
            rows += [{'file': file.name, 'threads': threads, 'batch': batch, 'image_ms': median(times_ms[batch]),
                      'gain': median(times_ms[1]) / median(times_ms[batch])} for batch in calls]
    show('time of an image, ms', rows[0], (row.values() for row in rows))
    for name, reason in skipped.items():
        print(f'not timed: {name}: {reason}')
    gains = [row['gain'] for row in rows if row['batch'] > 1]
    run.goal('median gain, if images are to wait for each other,', median(gains) if gains else None, least=WORTH)
    run.write(rounds=run.args.rounds, rows=rows, skipped=skipped)


if __name__ == '__main__':
    run_script(main, {
        '--data': {'type': Path, 'default': ROOT.parent / 'shared' / 'data' / 'public_models'},
        '--rounds': {'type': int, 'default': 40}}, quick='two rounds of one file')
