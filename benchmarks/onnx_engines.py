"""ONNX Runtime against OpenVINO on public detectors: each file in float and 8 bit, on one and two threads, interleaved.

    python benchmarks/onnx_engines.py [--data ../shared/data/public_models] [--device cpu] [--rounds 40] [--quick]

Timed are the layers alone, with the image in place, each engine in turn on the same images, and whole detections.
Files in other formats than ONNX are OpenVINO's alone, and are timed for comparison. 8 bit is each engine's own: of
OpenVINO by NNCF, of ONNX Runtime by its static quantisation (QDQ, which needs the module onnx), both calibrated on
images of a rendered drive; a file that is in 8 bit stays so. With --device cuda, ONNX Runtime runs on the GPU.
`ratio` is ONNX Runtime's median over OpenVINO's. Writes results/onnx_engines.json.
"""
from __future__ import annotations

import contextlib
import io
import logging
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np

from deadline_perception.core.device import use_threads
from deadline_perception.datasets.rendering.drive import render_drive
from deadline_perception.networks.external.exported_file import SUFFIXES
from deadline_perception.networks.external.model_error import ModelError
from deadline_perception.networks.model_set.exported_model import exported_spec
from deadline_perception.networks.model_set.onnx_detector import OnnxDetector
from deadline_perception.networks.model_set.onnx_runtime_detector import OnnxRuntimeDetector
from deadline_perception.networks.model_set.set_file import ModelSpec
from deadline_perception.networks.model_set.whole_detector import BACKGROUND
from deadline_perception.tools.model_variants import quantised
from own_models import MODELS
from parts.harness import ROOT, Run, quantiles, run_script, show, timed_ms, turns

IMAGES, CALIBRATED = 12, 8
THREADS = (1, 2)
PER_CHANNEL_OPSET = 13  # of ONNX, the first with scales by channel
OPENVINO, RUNTIME = 'OpenVINO', 'ONNX Runtime'


def main(run: Run) -> None:
    use_threads(max(THREADS))
    rounds = 2 if run.quick else run.args.rounds
    files = public_files(run.args.data)
    images = [frame.load_bgr() for frame in render_drive(seconds=4.0).frames]
    images = images[::max(1, len(images) // IMAGES)][:IMAGES]
    rows, skipped = [], {}
    with tempfile.TemporaryDirectory() as folder_name:
        for file in files[:1] if run.quick else files:
            variants = variants_of(file, images, Path(folder_name), skipped)
            for threads in THREADS:
                rows += compare(file.name, variants, threads, run.args.device, images, rounds, skipped)
    show('layers, ms', rows[0], (row.values() for row in rows))
    for name, reason in skipped.items():
        print(f'not timed: {name}: {reason}')
    run.write(rounds=rounds, images=len(images), gpu_or_cpu=run.args.device, rows=rows, skipped=skipped)


def public_files(folder: Path) -> list[Path]:
    """The exported networks of a folder.

    Raises:
        ValueError: there are none.
    """
    files = sorted(file for suffix in SUFFIXES for file in folder.glob(f'*{suffix}'))
    if not files:
        raise ValueError(f'--data is {folder}, expected a folder with files of {", ".join(SUFFIXES)}')
    return files


def variants_of(file: Path, images: list[np.ndarray], folder: Path,
                skipped: dict[str, str]) -> dict[tuple[str, str], ModelSpec]:
    """What is timed of a file, by engine and precision."""
    spec = spec_of(file)
    precision = OnnxDetector(file, spec.classes, form=spec.form).engine.forms['layers']
    found = {(OPENVINO, precision): spec}
    if file.suffix == '.onnx':
        found[RUNTIME, precision] = spec
    if precision == 'float':
        for engine, make in ((OPENVINO, by_nncf), (RUNTIME, by_onnx_runtime)):
            if engine == RUNTIME and file.suffix != '.onnx':
                continue
            try:
                found[engine, '8 bit'] = make(spec, images, folder)
            except (ModelError, ImportError, RuntimeError, ValueError) as error:
                skipped[f'{file.name} in 8 bit by {engine}'] = f'{type(error).__name__} {str(error)[:200]}'
    return found


def spec_of(file: Path) -> ModelSpec:
    """With the classes that its publisher names, where it is one of the public files; else those that it says."""
    known = {model.file: model for model in MODELS}.get(file.name)
    if known is None:
        return exported_spec(file)
    names = known.classes
    if 'with gaps' in known.conventions:  # 90 numbers for 80 classes; which is which takes no time
        names = tuple(f'number {number}' for number in range(90))
    return exported_spec(file, (BACKGROUND,) * ('label 1' in known.conventions) + names)


def by_nncf(spec: ModelSpec, images: list[np.ndarray], folder: Path) -> ModelSpec:
    """The file in 8 bit as `adopt` makes it."""
    return quantised(spec, images, folder / f'{spec.name}_8bit')


def by_onnx_runtime(spec: ModelSpec, images: list[np.ndarray], folder: Path) -> ModelSpec:
    """The file in 8 bit by ONNX Runtime's own quantiser."""
    import onnx
    from onnxruntime import set_default_logger_severity
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    set_default_logger_severity(3)  # errors

    detector = OnnxRuntimeDetector(spec.file, spec.classes, form=spec.form, cache=folder / 'cache')

    class Reader(CalibrationDataReader):
        """Gives the images one by one."""

        def __init__(self) -> None:
            self._left = iter(images[:CALIBRATED])

        def get_next(self) -> dict[str, np.ndarray] | None:
            image = next(self._left, None)
            if image is None:
                return None
            return detector.feeds(detector.prepare(image))

    model, newer = onnx.load(spec.file), folder / f'{spec.name}_{PER_CHANNEL_OPSET}.onnx'
    if model.opset_import[0].version < PER_CHANNEL_OPSET:
        model = onnx.version_converter.convert_version(model, PER_CHANNEL_OPSET)
    onnx.save(model, newer)
    file = folder / f'{spec.name}_qdq.onnx'
    logging.disable(logging.WARNING)
    with contextlib.redirect_stdout(io.StringIO()):
        quantize_static(str(newer), str(file), Reader(), quant_format=QuantFormat.QDQ,
                        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, per_channel=True)
    logging.disable(logging.NOTSET)
    return replace(spec, file=file)


def compare(name: str, variants: dict[tuple[str, str], ModelSpec], threads: int, device: str,
            images: list[np.ndarray], rounds: int, skipped: dict[str, str]) -> list[dict]:
    """Times of the layers of one file, every variant in turn."""
    detectors = {}
    for (engine, precision), spec in variants.items():
        options = {'form': spec.form, 'threads': threads}
        try:
            detector = (OnnxDetector(spec.file, spec.classes, **options) if engine == OPENVINO else
                        OnnxRuntimeDetector(spec.file, spec.classes, device=device, **options))
            detector.detect(images[0])
            detectors[engine, precision] = detector
        except ModelError as error:
            skipped[f'{name} {precision} by {engine}'] = str(error).replace(f'{spec.file.parent}/', '')[:200]
    layers_ms, whole_ms = defaultdict(list), defaultdict(list)
    for number, key in turns(detectors, rounds):
        detector, image = detectors[key], images[number % len(images)]
        prepared = detector.prepare(image)
        layers_ms[key].append(timed_ms(lambda: detector.run_layers(prepared)))
        whole_ms[key].append(timed_ms(lambda: detector.detect(image)))
    rows = []
    for (engine, precision), times in layers_ms.items():
        other = layers_ms.get((OPENVINO, precision))
        ratio = float(np.median(times) / np.median(other)) if engine == RUNTIME and other else None
        rows.append({'file': name, 'precision': precision, 'threads': threads, 'engine': engine,
                     'identity': detectors[engine, precision].engine.identity, **quantiles(times, 'p50', 'p99'),
                     'detect_p50': quantiles(whole_ms[engine, precision], 'p50')['p50'], 'ratio': ratio})
    return rows


if __name__ == '__main__':
    run_script(main, {'--data': {'type': Path, 'default': ROOT.parent / 'shared' / 'data' / 'public_models'},
                      '--device': {'default': 'cpu'}, '--rounds': {'type': int, 'default': 40}},
               quick='2 rounds of the first file')
