"""An exported detector, run by OpenVINO on the CPU: in floating point or 8 bit, as its file is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from deadline_perception.core.share_folder import share_folder
from deadline_perception.engines.openvino_library import cpu_settings, load_openvino, openvino_core
from deadline_perception.extras.external_models.exported.conventions import is_believable
from deadline_perception.extras.external_models.exported.exported_file import (
    ExportedFile,
    openvino_message,
    read_exported,
    with_size,
)
from deadline_perception.extras.external_models.exported.families import recognise
from deadline_perception.extras.external_models.exported.head import Head
from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.exported.own_head import own_head
from deadline_perception.extras.external_models.exported.pixels import InputForm, place, placement
from deadline_perception.extras.external_models.model_set.whole_detector import (
    OwnEngine,
    WholeDetector,
)


class OnnxDetector(WholeDetector):
    """See the module.

    Args:
        file: ONNX, OpenVINO IR or TensorFlow Lite.
        outputs: see `WholeDetector`.
        name: what it is called.
        form: of the input.
        stated: reading of the outputs, a name of `families.NAMES` or one with its conventions; empty: the likeliest.
        decode: `package.module:function` that reads the outputs instead, see `own_head`; empty: a known head.
        threads: that the layers are distributed over; with one, they are computed on the thread that asks for it.

    Attributes:
        head: how its outputs are read.

    Raises:
        ModelError: the file cannot be read, has operations that the engine lacks, inputs that are no image or of open
            size, or outputs that mean nothing known.
        StoreError: OpenVINO is not installed.
    """

    def __init__(
        self,
        file: Path,
        outputs: Sequence[str | None],
        *,
        name: str = '',
        form: InputForm = InputForm(),
        stated: str = '',
        decode: str = '',
        threads: int = 1,
    ) -> None:
        openvino = load_openvino()
        file = Path(file)
        exported = read_exported(file)
        size = input_size(exported, form, file)
        given = with_size(exported, size, file)
        if decode:
            self.head = own_head(decode, size)
        else:
            known = stated or exported.stated.outputs
            heads = in_file(file, lambda: recognise(given, len(outputs), size, known))
            self.head = heads[0]
        self._resize = form.resize or self.head.usual[0]
        layers = [
            (op.get_type_name(), [str(output.get_partial_shape()) for output in op.outputs()])
            for op in exported.model.get_ordered_ops()
        ]
        engine = OwnEngine(
            f'OpenVINO {openvino.__version__.split("-")[0]}', {'layers': exported.layers}
        )
        super().__init__(
            name or file.stem,
            outputs,
            input_size=size,
            shape=layers,
            file=file,
            device='cpu',
            engine=engine,
            options=[asdict(form), self.head.name, decode],
        )
        self.overlapping = self.overlapping or self.head.overlapping
        self._compile(exported, form, threads)
        if not decode and not stated and len(heads) > 1:
            self._look(heads, form)

    def _look(self, heads: Sequence[Head], form: InputForm) -> None:
        """Takes the likeliest reading that a photograph of a road does not contradict, of those of one way to resize;
        the likeliest of all where it contradicts each."""
        values = self.run_layers(self.prepare(load_photograph()))
        for head in heads:
            if head.usual == self.head.usual and is_believable(head, values, self.input_size):
                self.head = head
                break

    def _compile(self, exported: ExportedFile, form: InputForm, threads: int) -> None:
        """Makes ready what `run_layers` uses."""
        openvino = load_openvino()
        try:
            compiled = openvino_core().compile_model(
                _with_pixels(openvino, exported, form), 'CPU', cpu_settings(threads)
            )
        except RuntimeError as error:
            raise ModelError(
                f'{self.config_name} cannot be compiled: {openvino_message(error)}'
            ) from error
        self._tensor, self._request = openvino.Tensor, compiled.create_infer_request()
        self._count = len(compiled.outputs)

    def prepare(self, image_bgr: np.ndarray) -> np.ndarray:
        """uint8 `[H, W, 3]` of any size -> pixels `[1, h, w, 3]`."""
        return place(image_bgr, self.input_size, self._resize)[None]

    def run_layers(self, prepared: object) -> list[np.ndarray]:
        """The outputs, in the order of the file; they stay valid until the next call."""
        pixels = np.ascontiguousarray(prepared)
        self._request.set_input_tensor(0, self._tensor(pixels, shared_memory=True))
        self._request.infer()
        return [self._request.get_output_tensor(number).data for number in range(self._count)]

    def decode(
        self, given: object, image_size: tuple[int, int]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `WholeDetector`.

        Raises:
            ModelError: an output holds NaN or infinity, which is an error of the frame and no empty road.
        """
        check_finite(given, self.config_name)
        found = self.head.decode(given)
        at = placement(image_size, self.input_size, self._resize)
        return at.to_image(found.boxes, image_size), found.scores, found.labels


def load_photograph() -> np.ndarray:
    """A road, uint8 BGR `[H, W, 3]`; see docs/own_models.md."""
    from deadline_perception.core.opencv import cv2

    content = np.frombuffer((share_folder() / 'config' / 'photograph.jpg').read_bytes(), np.uint8)
    return cv2.imdecode(content, cv2.IMREAD_COLOR)


def check_finite(values: Sequence[np.ndarray], name: str) -> None:
    """Looks at the outputs of one image.

    Raises:
        ModelError: one holds NaN or infinity.
    """
    for value in values:
        # A sum is a fraction of the cost of looking at each value; it can overflow, so that then each is looked at.
        if (
            value.dtype.kind == 'f'
            and not np.isfinite(value.sum())
            and not np.isfinite(value).all()
        ):
            raise ModelError(f'{name} gave NaN or infinity, expected finite outputs')


def input_size(exported: ExportedFile, form: InputForm, file: Path) -> tuple[int, int]:
    """Height and width in px that a file is to read.

    Raises:
        ModelError: the file leaves it open, and neither its metadata nor the form say it.
    """
    size = form.size or (exported.stated.size if exported.is_open else exported.size)
    if size is None:
        listed = ', '.join('?' if side is None else str(side) for side in exported.size)
        raise ModelError(
            f'input of {file} is [{listed}], of open size: say which, with --input-size HEIGHT WIDTH or '
            f'as `input_size:` in the set file'
        )
    return tuple(size)


def in_file(file: Path, read):
    """What `read` gives; its errors name the file."""
    try:
        return read()
    except ModelError as error:
        raise ModelError(f'{file}: {error}') from error


def _with_pixels(openvino, exported: ExportedFile, form: InputForm):
    """The model behind layers that turn pixels `[1, h, w, 3]`, BGR, into what it reads."""
    from openvino.preprocess import ColorFormat, PrePostProcessor

    model = exported.model
    is_8_bit = model.inputs[0].get_element_type() == openvino.Type.u8
    steps = PrePostProcessor(model)
    image = steps.input()
    image.tensor().set_element_type(openvino.Type.u8).set_layout(
        openvino.Layout('NHWC')
    ).set_color_format(ColorFormat.BGR)
    image.model().set_layout(openvino.Layout('NCHW' if exported.by_planes else 'NHWC'))
    convert = image.preprocess()
    if form.channels == 'rgb':
        convert.convert_color(ColorFormat.RGB)
    if not is_8_bit:
        convert.convert_element_type(openvino.Type.f32)
        convert.mean(list(map(float, form.mean))).scale(list(map(float, form.deviation)))
        convert.convert_element_type(model.inputs[0].get_element_type())
    return steps.build()
