"""The file that says which detectors belong together, and the networks that it means."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import psutil
import yaml
from msgspec import Meta

from deadline_perception.core.decoding import decode
from deadline_perception.core.device import read_device_facts
from deadline_perception.core.errors import printable
from deadline_perception.core.replaced_file import replace_file
from deadline_perception.core.untrusted_file import FileRefused
from deadline_perception.engines.segment_run import Network
from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.exported.pixels import InputForm
from deadline_perception.extras.external_models.model_set.fixed_path import FixedPathNetwork
from deadline_perception.extras.external_models.model_set.model_set import (
    ModelSet,
)
from deadline_perception.extras.external_models.model_set.whole_detector import BACKGROUND
from deadline_perception.extras.plain_yaml import read_yaml
from deadline_perception.networks.model_reference import use_engine

FORMAT = 1
KINDS = ('onnx', 'torchvision', 'multi-path')
ENGINES_OF_ONNX = ('openvino', 'onnxruntime', 'onnxruntime-float16')
_MOST_MODELS, _MOST_LABELS = 64, 10_000  # the latter of one model
_NAME = re.compile(r'[A-Za-z0-9_.]+')
_FileName = Annotated[str, Meta(pattern='^[^\\0]+$')]
_HEAD = """# Detectors of which one runs each frame, ascending in time. Written by `deadline-perception adopt`.
# Launch it: ros2 launch deadline_perception perception.launch.py model:=THIS_FILE image_topic:=/camera/image_raw
"""


@dataclass(frozen=True)
class ModelSpec:
    """One detector of a set.

    Attributes:
        name: of letters, digits, dots and underscores.
        kind: one of `KINDS`.
        file: its weights; in the file a path from there.
        classes: for each label that it gives, a class of the set or None, also said as `BACKGROUND`; a multi-path
            detector knows its own.
        architecture: name of torchvision's model.
        path: of a multi-path detector the one path that is to run; empty: any of them.
        kept_paths: of a multi-path detector the paths that are kept ready, of which one is chosen; empty: all of them.
        input_size: height and width in px; None: as the model says.
        outputs: how an exported file's outputs are read, see `families.recognise`; empty: the likeliest way.
        decode: `package.module:function` that reads them instead, see `own_head`.
        resize, channels, mean, deviation: of an exported file's input, see `InputForm`.
        memory_mb: that it takes, as measured; 0 where it is not known.
        engine: of an ONNX file, one of `ENGINES_OF_ONNX`; empty: OpenVINO on a CPU, else ONNX Runtime.

    Raises:
        ModelError: a value is none of these.
    """

    name: str
    kind: str
    file: Path
    classes: tuple[str | None, ...] = ()
    architecture: str = ''
    path: str = ''
    kept_paths: tuple[str, ...] = ()
    input_size: tuple[int, int] | None = None
    outputs: str = ''
    decode: str = ''
    resize: str = ''
    channels: str = 'rgb'
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    deviation: tuple[float, ...] = (255.0, 255.0, 255.0)
    memory_mb: float = 0.0
    engine: str = ''

    def __post_init__(self) -> None:
        object.__setattr__(self, 'file', Path(self.file))
        for name in ('classes', 'kept_paths', 'input_size', 'mean', 'deviation'):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else tuple(value))
        object.__setattr__(
            self, 'classes', tuple(None if name == BACKGROUND else name for name in self.classes)
        )
        if not _NAME.fullmatch(self.name):
            raise ModelError(
                f'name of a model is {_told(self.name)}, expected letters, digits, dots and underscores'
            )
        if self.kind not in KINDS:
            raise ModelError(
                f'kind of model {self.name} is {_told(self.kind)}, expected one of {", ".join(KINDS)}'
            )
        if self.kind != 'multi-path' and not any(self.classes):
            raise ModelError(
                f'model {self.name} has no classes, expected a name or null for each label that it gives'
            )
        if len(self.classes) > _MOST_LABELS:
            raise ModelError(
                f'model {self.name} has {len(self.classes)} classes, expected at most {_MOST_LABELS}'
            )
        if not all(known is None or (known and known.isprintable()) for known in self.classes):
            raise ModelError(
                f'classes of model {self.name} are {_told(self.classes)}, expected names or null'
            )
        if not 0 <= self.memory_mb < 2**30:
            raise ModelError(
                f'memory of model {self.name} is {_told(self.memory_mb)} MB, expected a number of at '
                f'least 0'
            )
        if self.engine not in ('', *ENGINES_OF_ONNX):
            raise ModelError(
                f'engine of model {self.name} is {_told(self.engine)}, expected one of '
                f'{", ".join(ENGINES_OF_ONNX)}'
            )
        try:
            self.form  # raises where a value is none of it
        except ModelError as error:
            raise ModelError(f'model {self.name}: {error}') from error

    @property
    def form(self) -> InputForm:
        """Of its input."""
        return InputForm(self.input_size, self.resize, self.channels, self.mean, self.deviation)


@dataclass(frozen=True)
class _Content:
    """What a set file holds."""

    format: Annotated[int, Meta(ge=FORMAT, le=FORMAT)]
    models: list[dict[str, Any]]
    classes: list[str] | None = None


@dataclass(frozen=True)
class SetFile:
    """A set of detectors.

    Attributes:
        models: ascending in work.
        classes: of the set, in order; empty: as the models name them.

    Raises:
        ModelError: there is no model, a name occurs twice, or that of a class cannot be printed.
    """

    models: tuple[ModelSpec, ...]
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [model.name for model in self.models]
        if not 1 <= len(names) <= _MOST_MODELS or len(set(names)) < len(names):
            raise ModelError(
                f'models of the set are {", ".join(names) or "none"}, expected 1 to {_MOST_MODELS} of '
                f'distinct names'
            )
        if not all(map(str.isprintable, self.classes)):
            raise ModelError(f'classes are {_told(self.classes)}, expected printable names')

    @classmethod
    def load(cls, file: Path) -> SetFile:
        """Reads what `save` wrote, or a person did.

        Raises:
            ModelError: the file is missing, no YAML, or holds something else; says what.
        """
        file = Path(file)
        try:
            content = decode(read_yaml(file), _Content, 'set')
            models = [
                _model(file.parent, row, f'model {number}')
                for number, row in enumerate(content.models, 1)
            ]
            return cls(tuple(models), tuple(content.classes or ()))
        except (OSError, FileRefused, ModelError) as error:
            raise ModelError(f'set of models {file} cannot be used: {error}') from error

    def save(self, file: Path) -> None:
        """Writes the set, whole or not at all; files of models as paths from there where they lie below or beside
        it."""
        file = Path(file)
        rows = []
        for model in self.models:
            row = {'name': model.name, 'kind': model.kind, 'file': _from(file.parent, model.file)}
            for field in fields(ModelSpec)[3:]:
                value = getattr(model, field.name)
                if value != field.default:
                    row[field.name] = list(value) if isinstance(value, tuple) else value
            rows.append(row)
        content = {'format': FORMAT, 'classes': list(self.classes), 'models': rows}
        text = yaml.safe_dump(
            content, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None
        )
        replace_file(file, _HEAD + text)


def _model(folder: Path, row: dict[str, Any], name: str) -> ModelSpec:
    """A model of a set file, whose own file is named from its folder on."""
    file = decode(row.get('file'), _FileName, f'{name}.file')
    return decode({**row, 'file': folder / file}, ModelSpec, name)


def _told(value: object) -> str:
    return printable(repr(value), 200)


def _from(folder: Path, file: Path) -> str:
    there = file.resolve()
    near = Path(os.path.relpath(there, folder.resolve()))
    return str(there) if len([part for part in near.parts if part == '..']) > 2 else str(near)


def load_model(spec: ModelSpec, device: str = 'cpu', engine: str = 'auto') -> Network:
    """The network of one detector. Loads torch for all but ONNX files.

    Raises:
        DeadlinePerceptionError: it cannot be used; says why.
    """
    if spec.kind == 'onnx':
        check_device(spec, device)
        options = {
            'name': spec.name,
            'form': spec.form,
            'stated': spec.outputs,
            'decode': spec.decode,
            'threads': read_device_facts().threads,
        }
        if spec.engine.startswith('onnxruntime') or device != 'cpu':
            from deadline_perception.extras.external_models.model_set.onnx_runtime_detector import (
                OnnxRuntimeDetector,
            )

            return OnnxRuntimeDetector(
                spec.file,
                spec.classes,
                device=device,
                precision=spec.engine.partition('-')[2] or 'float32',
                **options,
            )
        from deadline_perception.extras.external_models.model_set.onnx_detector import OnnxDetector

        return OnnxDetector(spec.file, spec.classes, **options)
    if spec.kind == 'torchvision':
        from deadline_perception.extras.external_models.model_set.torchvision_detector import (
            TorchvisionDetector,
        )

        return TorchvisionDetector(
            spec.architecture,
            spec.file,
            spec.classes,
            name=spec.name,
            input_size=spec.input_size,
            device=device,
        )
    from deadline_perception.networks.multi_path.checkpoint import load_detector

    network = load_detector(spec.file, device)
    use_engine(network, engine, device, spec.file)
    try:
        if spec.path:
            return FixedPathNetwork(network, network.path_space.parse(spec.path))
        if spec.kept_paths:
            network.kept_paths = tuple(
                network.path_space.parse(str(name)) for name in spec.kept_paths
            )
        return network
    except ValueError as error:
        raise ModelError(f'model {spec.name}: {error}') from error


def check_device(spec: ModelSpec, device: str) -> None:
    """Makes sure that a device has an engine for a detector.

    Raises:
        ModelError: it has none.
    """
    if spec.kind == 'onnx' and device != 'cpu' and spec.file.suffix.lower() != '.onnx':
        raise ModelError(
            f'model {spec.name} is an exported file, {spec.file.name}, and the device {device}, expected '
            f'cpu, where OpenVINO runs it, or an ONNX file'
        )


def load_set(file: Path, device: str = 'cpu', engine: str = 'auto') -> ModelSet:
    """The network that a set file means, with all its models in memory.

    Raises:
        DeadlinePerceptionError: a model cannot be used, or memory does not hold all of them.
    """
    content = SetFile.load(file)
    check_memory(content.models)
    return build_set(
        Path(file).stem, content, [load_model(model, device, engine) for model in content.models]
    )


def build_set(name: str, content: SetFile, networks: Sequence[Network]) -> ModelSet:
    """A set of networks that are loaded already, in the order of the file."""
    return ModelSet(
        name,
        {model.name: network for model, network in zip(content.models, networks)},
        content.classes,
    )


def check_memory(models: Sequence[ModelSpec], available_mb: float | None = None) -> None:
    """Makes sure that memory holds all models, as far as it is known what they take.

    Args:
        models: with their memory.
        available_mb: memory that can be had; None: as the system says.

    Raises:
        ModelError: it does not; says what each takes, and what to do.
    """
    needed_mb = sum(model.memory_mb for model in models)
    if available_mb is None:
        available_mb = psutil.virtual_memory().available / 2**20
    if needed_mb > available_mb:
        each = ', '.join(f'{model.name} {model.memory_mb:.0f}' for model in models)
        raise ModelError(
            f'the models take {needed_mb:.0f} MB of memory ({each}) and {available_mb:.0f} MB are '
            f'available: adopt them again with --memory-limit {available_mb:.0f}, or take some out of the '
            f'set file'
        )
