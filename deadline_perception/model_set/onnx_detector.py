"""An exported detector, run by OpenVINO on the CPU: in floating point or 8 bit, as its file is."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import cv2
import numpy as np

from deadline_perception.engine.openvino_library import cpu_settings, load_openvino, openvino_core
from deadline_perception.model_set.onnx_outputs import Output, objects, recognise
from deadline_perception.model_set.whole_detector import ModelError, OwnEngine, WholeDetector

_FILL = 114  # grey beside a letterboxed image, as YOLO's training has it
_MOST_SIDE_PX = 8192
RESIZES, CHANNELS = ('letterbox', 'stretch'), ('rgb', 'bgr')


@dataclass(frozen=True)
class InputForm:
    """How an image becomes what the layers read.

    Attributes:
        size: height and width in px; None: as the file says.
        resize: `letterbox` keeps the proportions and fills what is left, `stretch` does not; empty: letterbox for a
            YOLO head, else stretch.
        channels: `rgb` or `bgr`.
        mean, deviation: of the channels, in their order and in values from 0 to 255; what is read is
            (pixel - mean) / deviation. By default from 0 to 1, for 8-bit inputs the pixels themselves.

    Raises:
        ModelError: a value is none of these.
    """

    size: tuple[int, int] | None = None
    resize: str = ''
    channels: str = 'rgb'
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    deviation: tuple[float, ...] = (255.0, 255.0, 255.0)

    def __post_init__(self) -> None:
        for name in ('size', 'mean', 'deviation'):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.size is not None and (len(self.size) != 2 or not all(
                isinstance(side, int) and 1 <= side <= _MOST_SIDE_PX for side in self.size)):
            raise ModelError(f'input size is {self.size}, expected height and width of 1 to {_MOST_SIDE_PX} px')
        if self.resize not in ('', *RESIZES) or self.channels not in CHANNELS:
            raise ModelError(f'resize is {self.resize!r} and channels {self.channels!r}, expected one of '
                             f'{", ".join(RESIZES)} and one of {", ".join(CHANNELS)}')
        numbers = (*self.mean, *self.deviation)
        if len(self.mean) != 3 or len(self.deviation) != 3 or not all(isinstance(n, (int, float)) for n in numbers) or \
                not all(value > 0 for value in self.deviation):
            raise ModelError(f'mean is {self.mean} and deviation {self.deviation}, expected three numbers each, '
                             f'deviations above 0')


class OnnxDetector(WholeDetector):
    """See the module.

    Args:
        file: ONNX file, or another that OpenVINO reads.
        outputs: see `WholeDetector`.
        name: what it is called.
        form: of the input.
        stated: form of the outputs, one of `onnx_outputs.FORMS`; empty: it is recognised.
        threads: that the layers are spread over; with one, they are computed on the thread that asks for it.

    Attributes:
        output_form: how its outputs are read.

    Raises:
        ModelError: the file cannot be read, has operations that the engine lacks, inputs that are no image or of open
            size, or outputs that mean nothing known.
        StoreError: OpenVINO is not installed.
    """

    def __init__(self, file: Path, outputs: Sequence[str | None], *, name: str = '', form: InputForm = InputForm(),
                 stated: str = '', threads: int = 1) -> None:
        openvino, core = load_openvino(), openvino_core()
        file = Path(file)
        model = _read(core, file)
        size, by_planes = _fix_input(model, form.size, file)
        self.output_form = _in_file(file, lambda: recognise(_outputs(model), len(outputs), stated))
        self._resize = form.resize or ('letterbox' if self.output_form.form.startswith('yolo') else 'stretch')
        layers = [(op.get_type_name(), [str(output.get_partial_shape()) for output in op.outputs()])
                  for op in model.get_ordered_ops()]
        engine = OwnEngine(f'OpenVINO {openvino.__version__.split("-")[0]}', {'layers': _precision(model)})
        super().__init__(name or file.stem, outputs, input_size=size, shape=layers, file=file, device='cpu',
                         engine=engine, options=[asdict(form), stated])
        try:
            compiled = core.compile_model(_with_pixels(openvino, model, form, by_planes), 'CPU', cpu_settings(threads))
        except RuntimeError as error:
            raise ModelError(f'{file} cannot be compiled: {_told(error)}') from error
        self._tensor, self._request = openvino.Tensor, compiled.create_infer_request()
        self._count = len(compiled.outputs)

    def prepare(self, image_bgr: np.ndarray) -> tuple[np.ndarray, tuple[float, float, float, float]]:
        """uint8 `[H, W, 3]` of any size -> pixels `[1, h, w, 3]`, and what turns boxes back: factors and offsets of x
        and y."""
        (height, width), (rows, columns) = self.input_size, image_bgr.shape[:2]
        if self._resize == 'stretch':
            pixels = _resized(image_bgr, (width, height))
            return pixels[None], (columns / width, rows / height, 0.0, 0.0)
        ratio = min(width / columns, height / rows)
        inner = (max(1, round(columns * ratio)), max(1, round(rows * ratio)))
        left, top = (width - inner[0]) // 2, (height - inner[1]) // 2
        pixels = np.full((1, height, width, 3), _FILL, np.uint8)
        pixels[0, top:top + inner[1], left:left + inner[0]] = _resized(image_bgr, inner)
        return pixels, (columns / inner[0], rows / inner[1], left, top)

    def run_layers(self, prepared: object) -> tuple[list[np.ndarray], tuple[float, float, float, float]]:
        """The outputs, in the order of the file; they stay valid until the next call."""
        pixels, back = prepared
        pixels = np.ascontiguousarray(pixels)
        self._request.set_input_tensor(0, self._tensor(pixels, shared_memory=True))
        self._request.infer()
        return [self._request.get_output_tensor(place).data for place in range(self._count)], back

    def decode(self, given: object, image_size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `WholeDetector`."""
        values, (factor_x, factor_y, left, top) = given
        boxes, scores, labels = objects(self.output_form, values)
        return (boxes - (left, top, left, top)) * (factor_x, factor_y, factor_x, factor_y), scores, labels


def _resized(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """An image of that width and height."""
    return image if image.shape[1::-1] == size else cv2.resize(image, size, interpolation=cv2.INTER_LINEAR)


def _read(core, file: Path):
    if not file.is_file():
        raise ModelError(f'{file} does not exist, expected an ONNX file')
    try:
        return core.read_model(file)
    except RuntimeError as error:
        raise ModelError(f'{file} cannot be read by OpenVINO: {_told(error)}. Export it without operations of its own '
                         f'(for YOLO: without suppression inside), or with another opset') from error


def _in_file(file: Path, read):
    try:
        return read()
    except ModelError as error:
        raise ModelError(f'{file}: {error}') from error


def _told(error: Exception) -> str:
    """The line of an error of OpenVINO's that says what is wrong, mostly after the places in its own source."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    wanted = [line for line in lines if 'support' in line.lower()]
    plain = [line for line in lines if not line.startswith(('Exception from', 'Check '))]
    return (wanted or plain[-1:] or lines[-1:] or [type(error).__name__])[0][:300]


def _fix_input(model, stated: tuple[int, int] | None, file: Path) -> tuple[tuple[int, int], bool]:
    """Gives the input its size. Returns height and width, and whether its channels come before them."""
    if len(model.inputs) != 1:
        names = ', '.join(value.get_any_name() for value in model.inputs)
        raise ModelError(f'{file} has {len(model.inputs)} inputs ({names}), expected one, the image')
    shape = _sizes(model.inputs[0])
    listed = f'[{", ".join("?" if size is None else str(size) for size in shape)}]'
    if len(shape) != 4 or (shape[1] not in (3, None) and shape[3] != 3) or shape[0] not in (1, None):
        raise ModelError(f'input of {file} is {listed}, expected one image [1, 3, height, width] or '
                         '[1, height, width, 3]')
    by_planes = shape[1] == 3 or (shape[1] is None and shape[3] != 3)
    sides = shape[2:] if by_planes else shape[1:3]
    if stated is None and None in sides:
        raise ModelError(f'input of {file} is {listed}, of open size: say which, with --input-size HEIGHT WIDTH or as '
                         f'`input_size:` in the set file')
    size = tuple(stated) if stated is not None else tuple(sides)
    if any(side not in (None, wanted) for side, wanted in zip(sides, size)):
        raise ModelError(f'input of {file} is {listed}, expected the stated size of {size[0]} x {size[1]} px; leave it '
                         f'out, or export the file with that size or an open one')
    try:
        model.reshape([1, 3, *size] if by_planes else [1, *size, 3])
    except RuntimeError as error:
        raise ModelError(f'{file} cannot take images of {size[0]} x {size[1]} px: {_told(error)}') from error
    return size, by_planes


def _sizes(value) -> tuple[int | None, ...]:
    """Shape of an input or output, None where the file leaves a size open; empty where it leaves all open."""
    shape = value.get_partial_shape()
    return tuple(size.get_length() if size.is_static else None for size in shape) if shape.rank.is_static else ()


def _outputs(model) -> list[Output]:
    found = []
    for value in model.outputs:
        name = value.get_any_name() if value.get_names() else '(unnamed)'
        found.append(Output(name, _sizes(value), value.get_element_type().is_integral()))
    return found


def _with_pixels(openvino, model, form: InputForm, by_planes: bool):
    """The model behind layers that turn pixels `[1, h, w, 3]`, BGR, into what it reads."""
    from openvino.preprocess import ColorFormat, PrePostProcessor

    is_8_bit = model.inputs[0].get_element_type() == openvino.Type.u8
    steps = PrePostProcessor(model)
    image = steps.input()
    image.tensor().set_element_type(openvino.Type.u8).set_layout(openvino.Layout('NHWC')).set_color_format(
        ColorFormat.BGR)
    image.model().set_layout(openvino.Layout('NCHW' if by_planes else 'NHWC'))
    convert = image.preprocess()
    if form.channels == 'rgb':
        convert.convert_color(ColorFormat.RGB)
    if not is_8_bit:
        convert.convert_element_type(openvino.Type.f32)
        convert.mean(list(map(float, form.mean))).scale(list(map(float, form.deviation)))
        convert.convert_element_type(model.inputs[0].get_element_type())
    return steps.build()


def _precision(model) -> str:
    """What the layers are computed in, as far as the file decides."""
    kinds = {op.get_type_name() for op in model.get_ops()}
    return '8 bit' if kinds & {'FakeQuantize', 'QuantizeLinear', 'DequantizeLinear'} else 'float'
