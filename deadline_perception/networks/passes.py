"""One image looked at twice: a cheap look at the whole of it, and where time allows a closer one.

The first look, `coarse`, is a fixed path of a network; it gives an answer to the image in a few ms. The second, `fine`,
is any path of the same or another network; what both found is merged, since a network that sees far objects at a large
scale sees near ones better at a small one. Either look may be skipped, not both. (Mandatory and optional part of a
job: imprecise computation, Liu et al. 1991.) Which looks an image gets is decided like everything else: by operators of
the path space, so that profile, forecast, policy, messages and report loop over them unchanged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta

from deadline_perception.core.detections import Detections
from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.execution_path import (
    PASS,
    ExecutionPath,
    Operator,
    PathSpace,
    Segment,
    Setting,
)
from deadline_perception.core.json_file import JsonFileError, read_record
from deadline_perception.core.opencv import cv2
from deadline_perception.engines.eager import Engine
from deadline_perception.engines.segment_run import Network, check_image
from deadline_perception.networks.inner_run import InnerRun
from deadline_perception.networks.look_fusion import FusionRecord, LookFusion

# Operators, results, and phase of the first.
COARSE = 'coarse'
FINE = 'fine'
_PREFIX = f'{COARSE}.'  # of names and keys of the first look
NONE = 'none'
RUN = 'run'
SUFFIX = '.passes.json'  # of the file beside weights that declares their passes
FORMAT = 2
SAME_OBJECT_IOU = 0.5  # boxes of one class that overlap more are one object: the most certain stays


class PassesError(DeadlinePerceptionError):
    """Passes that cannot be made of these networks, and why."""


def merged(
    coarse: Detections,
    fine: Detections,
    image_size: tuple[int, int],
    fusion: LookFusion,
) -> Detections:
    """What two looks at one image found, most certain first; labels of both index the same classes.

    Args:
        coarse: of the first look.
        fine: of the closer one.
        image_size: height and width in px.
        fusion: gives the boxes of both scores that compare.
    """
    if not len(coarse) and not len(fine):
        return fine
    both = fusion.fused(coarse, fine, image_size)
    corners_and_sides = both.boxes_xyxy_px.copy()
    corners_and_sides[:, 2:] -= corners_and_sides[:, :2]
    # Arrays are taken, though OpenCV's types name sequences.
    found = cv2.dnn.NMSBoxesBatched(
        corners_and_sides.astype(np.float64),  # type: ignore[arg-type]
        both.scores.astype(np.float32),  # type: ignore[arg-type]
        both.labels.astype(np.int32),  # type: ignore[arg-type]
        0.0,
        SAME_OBJECT_IOU,
    )
    kept = np.asarray(found, np.intp).reshape(-1)
    kept = kept[np.argsort(-both.scores[kept], kind='stable')]
    return Detections(both.boxes_xyxy_px[kept], both.scores[kept], both.labels[kept])


@dataclass(frozen=True)
class PassesFile:
    """What passes weights are used in; `WEIGHTS.passes.json` beside them.

    Attributes:
        format: of the file.
        coarse: paths of the first look by their labels, ascending in work.
        model: of the network that takes the first look, a model string or a file beside.
        fusion: as it gives the boxes of both looks scores that compare.
    """

    format: Annotated[int, Meta(ge=FORMAT, le=FORMAT)]
    coarse: Annotated[dict[str, str], Meta(min_length=1)]
    model: str
    fusion: FusionRecord = field(default_factory=FusionRecord)

    @classmethod
    def load(cls, file: Path) -> PassesFile:
        """Reads `{"format": 2, "coarse": {"0.36": "r0.36-..."}, "model": "small", "fusion": {...}}`.

        Raises:
            PassesError: the file cannot be read, or holds something else.
        """
        try:
            return read_record(file, cls, 'passes')
        except JsonFileError as error:
            raise PassesError(str(error)) from error


class PassesNetwork(Network):
    """See the module; a `Network`.

    Args:
        fine: takes the closer look, on any of its paths.
        coarse: takes the first look; may be the same.
        coarse_paths: of it, those of the first look by their labels, ascending in work, at least one.
        fusion: gives what both found scores that compare; see `LookFusion.from_record`. None: each keeps its own.

    Raises:
        ValueError: the fusion does not fit the classes.
        PassesError: a network gives no detections, or that of the closer look consists of alternatives.
    """

    result_type: type = Detections

    def __init__(
        self,
        fine: Network,
        coarse: Network,
        coarse_paths: Mapping[str, ExecutionPath],
        fusion: FusionRecord | None = None,
    ) -> None:
        self.fine = fine
        self.coarse = coarse
        self.coarse_paths = dict(coarse_paths)
        self._check()
        self._fine_path = cache(partial(ExecutionPath, space=fine.path_space))
        self.path_space = passes_space(fine.path_space, coarse.path_space, self.coarse_paths)
        self.class_names = tuple(dict.fromkeys((*fine.class_names, *coarse.class_names)))
        self.fusion = LookFusion.from_record(fusion or FusionRecord(), self.class_names)
        self._coarse_labels = np.array(
            [self.class_names.index(name) for name in coarse.class_names], np.int64
        )
        self.device = fine.device
        self.input_size = fine.input_size
        self.engine: Engine = _BothEngines(coarse.engine, fine.engine)
        self.config_name = f'{fine.config_name}-after-{coarse.config_name}'
        paths = [str(path) for path in self.coarse_paths.values()]
        self.network_hash = _digest(fine.network_hash, coarse.network_hash, *paths)
        self.weights_hash = _digest(fine.weights_hash, coarse.weights_hash, *paths)

    def start(self, image_bgr: np.ndarray, path: ExecutionPath) -> PassesRun:
        """See `Network`."""
        return PassesRun(self, image_bgr, path)

    def single(self, path: ExecutionPath) -> ExecutionPath:
        """The path of this network that takes the closer look alone, on a path of its network."""
        return ExecutionPath((0, 1, *path.settings), self.path_space)

    def parts(self, path: ExecutionPath) -> tuple[ExecutionPath | None, ExecutionPath | None]:
        """What path of its network each look takes; None where it is skipped."""
        coarse = path[COARSE]
        return (
            None if coarse == NONE else self.coarse_paths[str(coarse)],
            None if path[FINE] == NONE else self._fine_path(path.settings[2:]),
        )

    def found_coarse(self, found: Detections) -> Detections:
        """What the first look found, with labels that index the classes of this network."""
        return Detections(found.boxes_xyxy_px, found.scores, self._coarse_labels[found.labels])

    def _check(self) -> None:
        for network in (self.fine, self.coarse):
            if network.result_type is not Detections:
                raise PassesError(
                    f'{network.config_name} gives {network.result_type.__name__}, expected Detections'
                )
        if self.fine.path_space.has_alternatives:
            raise PassesError(
                f'{self.fine.config_name} consists of alternatives, expected one network for the closer look'
            )


def passes_space(
    fine: PathSpace, coarse: PathSpace, coarse_paths: Mapping[str, ExecutionPath]
) -> PathSpace:
    """All ways to look at an image once or twice.

    Args:
        fine: paths of the closer look.
        coarse: of the network that takes the first look.
        coarse_paths: those of it that the first look may take, by their labels.
    """
    labels = tuple(coarse_paths)
    operators = (
        Operator(COARSE, PASS, (NONE, *labels), 'c', unnamed=0),
        # So that a path without a second look reads `c0.36-alone`.
        Operator(FINE, PASS, (NONE, RUN), 'a', ('lone', 'fterwards'), unnamed=1),
        *fine.operators,
    )
    segments: list[Segment] = []
    for number, segment in enumerate(coarse.segments):
        keys: dict[Setting, str] = {
            label: f'{_PREFIX}{key}'
            for label, path in coarse_paths.items()
            if (key := coarse.key(number, path)) is not None
        }
        if keys:
            segments.append(
                Segment(f'{_PREFIX}{segment.name}', COARSE, depends_on=(COARSE,), keys=keys)
            )
    segments[0] = replace(segments[0], operator=COARSE)
    segments[-1] = replace(segments[-1], result=COARSE)
    segments.append(Segment(FINE, fine.segments[0].phase, FINE, only_on=(COARSE, *labels), keys={}))
    segments += [replace(segment, only_on=(FINE, RUN)) for segment in fine.segments]
    segments[-1] = replace(segments[-1], result=FINE)
    return PathSpace(operators, tuple(segments))


class PassesRun(InnerRun):
    """One image on its way through its looks, of which the inner run is the one under way."""

    def __init__(self, network: PassesNetwork, image_bgr: np.ndarray, path: ExecutionPath) -> None:
        super().__init__(network.path_space, path, network.device, None)
        check_image(image_bgr)
        self._network = network
        self._image = image_bgr
        self._coarse: Detections | None = None

    def redirect(self, path: ExecutionPath) -> None:
        """See `SegmentRun`."""
        super().redirect(path)
        fine = self._network.parts(self.path)[1]
        if self._inner is not None and fine is not None and not self._is_coarse:
            self._inner.redirect(fine)

    @property
    def _is_coarse(self) -> bool:
        """The look under way is the first one."""
        return self._coarse is None and self.path[COARSE] != NONE

    def compute(self, name: str, key: str) -> None:
        """See `SegmentRun`."""
        network = self._network
        is_coarse = self._is_coarse
        if self._inner is None:
            coarse, fine = network.parts(self.path)
            look, path = (network.coarse, coarse) if is_coarse else (network.fine, fine)
            assert path is not None
            self._inner = look.start(self._image, path)
        super().compute(name.removeprefix(_PREFIX) if is_coarse else name, key)
        if is_coarse and self.space.segments[self.segment].result:
            self._coarse = network.found_coarse(self._inner.finish())
            self._inner = None

    def result_so_far(self) -> Detections | None:
        """See `SegmentRun`: what the first look found, once it has ended."""
        return self._coarse

    def result(self) -> Detections:
        """See `SegmentRun`: what the looks found together."""
        self.check_finished()
        found = self._coarse if self._inner is None else self._inner.finish()
        assert found is not None
        if self._coarse is None or self._inner is None:
            return found
        return merged(self._coarse, found, self._image.shape[:2], self._network.fusion)


class _BothEngines(Engine):
    """What the engines of two networks have to say together."""

    def __init__(self, coarse: Engine, fine: Engine) -> None:
        super().__init__('; '.join(engine.notice for engine in (coarse, fine) if engine.notice))
        self._coarse = coarse
        self._fine = fine
        self.identity = '; '.join(dict.fromkeys([coarse.identity, fine.identity]))
        self.reuses_buffers = coarse.reuses_buffers or fine.reuses_buffers

    def load(self, keys: Iterable[str]) -> None:
        """See `Engine`."""
        own = set(keys)
        first = {key for key in own if key.startswith(_PREFIX)}
        self._coarse.load([key.removeprefix(_PREFIX) for key in sorted(first)])
        self._fine.load(sorted(own - first))

    @property
    def forms(self) -> dict[str, str]:
        """See `Engine`."""
        return {f'{_PREFIX}{key}': form for key, form in self._coarse.forms.items()} | dict(
            self._fine.forms
        )


def _digest(*parts: str) -> str:
    return hashlib.sha256('\n'.join(parts).encode()).hexdigest()[:16]
