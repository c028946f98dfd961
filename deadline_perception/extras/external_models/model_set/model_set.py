"""Several detectors as one network: which of them runs, the operator `model` decides before each frame.

The models' own operators stay: on a path of a model that has any, they are decided as they come; on paths of the others
they are pinned. So the decision that chooses among the paths of one network chooses among networks too (contention
paper, section 3.3, whose models decide nothing).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.execution_path import (
    MODEL,
    ExecutionPath,
    Operator,
    PathSpace,
    Segment,
)
from deadline_perception.engines.eager import Engine
from deadline_perception.engines.segment_run import Network
from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.model_set.whole_detector import OwnEngine
from deadline_perception.networks.inner_run import InnerRun

CHOICE, _SYMBOL = 'model', 'm'


class ModelSet(Network):
    """See the module. All models are resident, so that a change costs nothing but cold caches.

    Args:
        name: of the set.
        models: networks by their names, ascending in work: the last is the largest. At most one has operators.
        class_names: of the set, in order; empty: those of the models, in the order in which they name them.

    Raises:
        ModelError: there is no model, several have operators, or one gives no detections, runs on another device than
            the others, or finds a class that the set does not name.
        ValueError: a name cannot be part of a path's.
    """

    result_type = Detections

    def __init__(
        self, name: str, models: Mapping[str, Network], class_names: Sequence[str] = ()
    ) -> None:
        if not models:
            raise ModelError('the set holds no model, expected at least one')
        self.models = dict(models)
        self.class_names = tuple(class_names) or tuple(
            dict.fromkeys(known for model in self.models.values() for known in model.class_names)
        )
        self._check()
        self.path_space = _set_space(
            {model: network.path_space for model, network in self.models.items()}
        )
        self._labels = {
            model: np.array(
                [self.class_names.index(known) for known in network.class_names], np.int64
            )
            for model, network in self.models.items()
        }
        self.device = next(iter(self.models.values())).device
        self.input_size = max(
            (network.input_size for network in self.models.values()),
            key=lambda size: size[0] * size[1],
        )
        self.network_hash = self._digest(network.network_hash for network in self.models.values())
        self.weights_hash = self._digest(network.weights_hash for network in self.models.values())
        self.config_name = f'{name}-{self.network_hash[:8]}'

    @property
    def engine(self) -> Engine:
        """What its models' engines have to say together."""
        engines = {model: network.engine for model, network in self.models.items()}
        identities = sorted({engine.identity for engine in engines.values()})
        notices = [
            f'{model}: {engine.notice}' for model, engine in engines.items() if engine.notice
        ]
        forms = {
            f'{model}.{key}': form
            for model, engine in engines.items()
            for key, form in engine.forms.items()
        }
        return OwnEngine('; '.join(identities), forms, '; '.join(notices))

    @property
    def kept_paths(self) -> tuple[ExecutionPath, ...] | None:
        """The paths that are kept ready; None where all are."""
        if not any(network.kept_paths for network in self.models.values()):
            return None
        return tuple(
            self.whole(model, path)
            for model, network in self.models.items()
            for path in network.kept_paths or network.path_space
        )

    def part(self, path: ExecutionPath) -> tuple[str, ExecutionPath]:
        """The model that a path runs, and which of its paths."""
        model = str(path[CHOICE])
        space = self.models[model].path_space
        return model, ExecutionPath(
            tuple(
                path.settings[self.path_space.place[operator.name]] for operator in space.operators
            ),
            space,
        )

    def whole(self, model: str, path: ExecutionPath) -> ExecutionPath:
        """The path of the set that runs a path of a model."""
        own = {operator.name: path[operator.name] for operator in path.space.operators}
        return self.path_space.largest.replace(**{CHOICE: model}).replace(**own)

    def unseen(self, model: str) -> tuple[str, ...]:
        """Classes of the set that a model cannot find."""
        return tuple(
            name for name in self.class_names if name not in self.models[model].class_names
        )

    def start(self, image_bgr: np.ndarray, path: ExecutionPath) -> SetRun:
        """See `Network`."""
        return SetRun(self, image_bgr, path)

    def relabelled(self, model: str, found: Detections) -> Detections:
        """What a model found, with labels that index the classes of the set."""
        return Detections(found.boxes_xyxy_px, found.scores, self._labels[model][found.labels])

    def _check(self) -> None:
        deciding = [model for model, network in self.models.items() if network.path_space.operators]
        if len(deciding) > 1:
            raise ModelError(
                f'{" and ".join(deciding)} decide something themselves, expected one such model at most: '
                f'fix the path of the others'
            )
        devices = {network.device for network in self.models.values()}
        if len(devices) > 1:
            raise ModelError(
                f'the models run on {" and ".join(sorted(devices))}, expected one device'
            )
        for model, network in self.models.items():
            if network.result_type is not Detections:
                raise ModelError(
                    f'{model} gives {network.result_type.__name__}, expected Detections'
                )
            unknown = [name for name in network.class_names if name not in self.class_names]
            if unknown:
                raise ModelError(
                    f'{model} finds {", ".join(unknown)}, expected classes of the set: '
                    f'{", ".join(self.class_names)}'
                )

    def _digest(self, hashes) -> str:
        """Identifies the models, whatever their order."""
        rows = sorted(f'{model} {known}' for model, known in zip(self.models, hashes))
        return hashlib.sha256('\n'.join(rows).encode()).hexdigest()[:16]


def _set_space(spaces: Mapping[str, PathSpace]) -> PathSpace:
    operators = [Operator(CHOICE, MODEL, tuple(spaces), _SYMBOL)]
    segments = [Segment(CHOICE, 'pre', CHOICE)]
    for model, space in spaces.items():
        operators += space.operators
        segments += [
            replace(segment, name=f'{model}.{segment.name}', only_on=(CHOICE, model))
            for segment in space.segments
        ]
    return PathSpace(tuple(operators), tuple(segments))


class SetRun(InnerRun):
    """One frame of a set: it is a model's frame once the model is decided."""

    def __init__(self, network: ModelSet, image_bgr: np.ndarray, path: ExecutionPath) -> None:
        super().__init__(network.path_space, path, network.device, None)
        self._network, self._image, self._model = network, image_bgr, ''

    def compute(self, name: str, key: str) -> None:
        """See `SegmentRun`."""
        if name == CHOICE:
            self._model, part = self._network.part(self.path)
            self._inner = self._network.models[self._model].start(self._image, part)
        else:
            super().compute(name.removeprefix(f'{self._model}.'), key)

    def redirect(self, path: ExecutionPath) -> None:
        """See `SegmentRun`."""
        super().redirect(path)
        if self._inner is not None:
            self._inner.redirect(self._network.part(self.path)[1])

    def result(self) -> Detections:
        """See `SegmentRun`."""
        return self._network.relabelled(self._model, super().result())
