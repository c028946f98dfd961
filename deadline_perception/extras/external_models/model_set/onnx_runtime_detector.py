"""An exported detector in ONNX, run by ONNX Runtime: on a GPU, or on a CPU where that is faster than OpenVINO.

What the file holds and how its outputs are read is found as for OpenVINO (`onnx_detector.py`), which also reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from deadline_perception.extras.external_models.exported.exported_file import (
    ExportedFile,
    beside_image,
    side_values,
)
from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.exported.pixels import InputForm, read_values
from deadline_perception.extras.external_models.model_set.onnx_detector import OnnxDetector
from deadline_perception.extras.external_models.model_set.onnx_runtime import (
    OnnxRuntimeError,
    OnnxSession,
    SessionOptions,
    default_cache_folder,
    feed_of,
)
from deadline_perception.extras.external_models.model_set.whole_detector import OwnEngine


class OnnxRuntimeDetector(OnnxDetector):
    """See the module.

    Args:
        file: ONNX.
        outputs: see `WholeDetector`.
        device: `cpu`, `cuda` or `cuda:INDEX`.
        precision: see `SessionOptions`.
        cache: folder of compiled forms; None: the user's own.
        options: see `OnnxDetector`.

    Raises:
        ModelError: as `OnnxDetector`; or the file is no ONNX, or no execution provider can run it.
    """

    def __init__(
        self,
        file: Path,
        outputs: Sequence[str | None],
        *,
        device: str = 'cpu',
        precision: str = 'float32',
        cache: Path | None = None,
        threads: int = 1,
        name: str = '',
        form: InputForm = InputForm(),
        stated: str = '',
        decode: str = '',
    ) -> None:
        if Path(file).suffix.lower() != '.onnx':
            raise ModelError(f'{file} is no ONNX file, which is all that ONNX Runtime reads')
        try:
            self._options = SessionOptions(device, threads, precision)
        except ValueError as error:
            raise ModelError(str(error)) from error
        self._file, self._form = Path(file), form
        self._cache = default_cache_folder() if cache is None else cache
        super().__init__(
            file, outputs, name=name, form=form, stated=stated, decode=decode, threads=threads
        )
        self.device = device
        self.engine = OwnEngine(
            self._session.identity, dict(self.engine.forms), self._session.notice
        )

    def feeds(self, prepared: np.ndarray) -> dict[str, np.ndarray]:
        """What the session reads of an image that `prepare` has given, by input."""
        pixels = prepared[0]
        feeds = {}
        for name, (shape, kind) in self._session.inputs.items():
            if name == self._image:
                if kind != 'tensor(uint8)':
                    values = read_values(pixels, self._form)
                else:  # pixels are BGR
                    values = pixels if self._form.channels == 'bgr' else pixels[..., ::-1]
                feeds[name] = feed_of(shape, kind, values)
            else:
                feeds[name] = self._size_feed(name, shape, kind)
        return feeds

    def run_layers(self, prepared: np.ndarray) -> list[np.ndarray]:
        """See `OnnxDetector`."""
        try:
            values = self._session.run(self.feeds(prepared))
        except OnnxRuntimeError as error:
            raise ModelError(str(error)) from error
        if (
            self._session.identity != self.engine.identity
        ):  # its provider has failed, and another one runs it
            self.engine = OwnEngine(
                self._session.identity, dict(self.engine.forms), self._session.notice
            )
        return values

    def _compile(self, exported: ExportedFile, form: InputForm, threads: int) -> None:
        """Opens a session, and finds the input that takes the image."""
        try:
            self._session = OnnxSession(self._file, self._options, self._cache)
        except OnnxRuntimeError as error:
            raise ModelError(str(error)) from error
        images = [
            name
            for name, (shape, _) in self._session.inputs.items()
            if len(shape) in (3, 4) and 3 in (shape[-3], shape[-1])
        ]
        if not images:
            raise ModelError(
                f'inputs of {self.config_name} are {", ".join(self._session.inputs)}, expected an image'
            )
        self._image = images[0]
        shape, _ = self._session.inputs[self._image]
        if len(shape) == 4 and isinstance(shape[0], int) and shape[0] != 1:
            raise ModelError(
                f'{self.config_name} takes {shape[0]} images at once, which ONNX Runtime cannot change: export it '
                f'with a batch of 1, or run it by OpenVINO'
            )

    def _size_feed(self, name: str, shape: Sequence[int | str | None], kind: str) -> np.ndarray:
        """What an input beside the image holds."""
        types = {
            'tensor(int64)': np.int64,
            'tensor(int32)': np.int32,
            'tensor(float)': np.float32,
            'tensor(bool)': np.bool_,
        }
        if kind not in types:
            raise ModelError(
                f'input {name} of {self.config_name} is of type {kind}, expected the size of the image'
            )
        lengths = [length if isinstance(length, int) else None for length in shape]
        known = beside_image(name, lengths[1:], self.input_size)
        return side_values(name, (lengths[0] or 1, *known), self.input_size).astype(types[kind])
