"""A file that somebody exported: read by OpenVINO (ONNX, OpenVINO IR, TensorFlow Lite), with what it says of itself.

Inputs beside the image that only tell sizes, as DETR's family and PaddleDetection have them, become constants, so that
boxes come in px of the input; so does a mask of pixels, all of which are of the image. A batch of several images becomes
one of one. A loop that states no bound, or a large one, and layers of gigabytes are refused before they can run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from deadline_perception.core.errors import printable
from deadline_perception.core.untrusted_file import FileRefused, check_kind
from deadline_perception.engines.openvino_library import load_openvino, openvino_core
from deadline_perception.extras.external_models.exported.head import Output
from deadline_perception.extras.external_models.exported.memory import (
    bodies,
    check_lengths,
    check_memory,
)
from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.exported.pixels import MOST_SIDE_PX
from deadline_perception.extras.external_models.exported.stated_facts import (
    StatedFacts,
    read_stated,
)
from deadline_perception.extras.external_models.exported.tflite_file import read_tflite
from deadline_perception.networks.kinds import EXPORT_SUFFIXES

_MOST_ROUNDS = 100_000  # of a loop
_WIDTH_FIRST = (
    'orig_target_sizes',
    'orig_size',
)  # inputs of sizes, by name; others have the height first
_IMAGE_NAMES = ('image', 'images', 'input', 'pixel_values', 'x', 'data')


@dataclass(frozen=True)
class ExportedFile:
    """What a file holds.

    Attributes:
        model: of OpenVINO, with one input.
        by_planes: its channels come before height and width.
        size: height and width of the input in px, None where the file leaves them open.
        outputs: in its order.
        stated: what it says of itself.
        layers: precision of its layers, `float` or `8 bit`.
    """

    model: object
    by_planes: bool
    size: tuple[int | None, int | None]
    outputs: tuple[Output, ...]
    stated: StatedFacts
    layers: str

    @property
    def is_open(self) -> bool:
        """Its input has no size of its own."""
        return None in self.size


def read_exported(file: Path) -> ExportedFile:
    """Reads a file; takes some tenths of a second and no torch.

    Raises:
        ModelError: it is missing, cannot be read, has inputs that are no image, a batch of several images that layers
            insist on, layers of gigabytes, or a loop without a small stated bound.
        StoreError: OpenVINO is not installed.
    """
    file = Path(file)
    model = _read(file)
    _take_batches(model)
    image = _image_input(model, file)
    check_memory(model, file)  # before any constant is computed
    _check_loops(model, file)
    if sizes_of(image)[0] not in (1, None):
        _take_single_images(model, image, file)
    shape = sizes_of(image)
    by_planes = shape[1] == 3 or (shape[1] is None and shape[3] != 3)
    sides = shape[2:] if by_planes else shape[1:3]
    if any(side is not None and not 1 <= side <= MOST_SIDE_PX for side in sides):
        raise ModelError(
            f'input of {file} has {sides[0]} x {sides[1]} px, expected 1 to {MOST_SIDE_PX} px a side'
        )
    return ExportedFile(
        model,
        by_planes,
        tuple(sides),
        tuple(_outputs(model)),
        read_stated(model, file),
        precision(model),
    )


def with_size(exported: ExportedFile, size: tuple[int, int], file: Path) -> list[Output]:
    """Gives the input its height and width in px, and a batch of one image; returns the outputs as they are then.

    Raises:
        ModelError: the file cannot have that size, or would take too much memory with it.
    """
    if any(side not in (None, wanted) for side, wanted in zip(exported.size, size)):
        raise ModelError(
            f'input of {file} has {exported.size[0]} x {exported.size[1]} px, expected the stated size of '
            f'{size[0]} x {size[1]} px; leave it out, or export the file with that size or an open one'
        )
    model = exported.model
    image = _image_input(model, file)
    try:
        shapes = {
            one: [1, 3, *size] if exported.by_planes else [1, *size, 3]
            for one in model.inputs
            if one.get_node() == image.get_node()
        }
        shapes |= {
            one: [1, *beside_image(_name(one), sizes_of(one)[1:], size)]
            for one in model.inputs
            if one.get_node() != image.get_node()
        }
        model.reshape(shapes)
        _fix_sizes(model, image, size)
    except RuntimeError as error:
        raise ModelError(
            f'{file} cannot take images of {size[0]} x {size[1]} px: {openvino_message(error)}'
        ) from error
    check_memory(model, file)
    check_lengths(model, file)
    return _outputs(model)


def precision(model) -> str:
    """What the layers of a model are computed in, as far as its file decides."""
    kinds = {op.get_type_name() for op in model.get_ops()}
    return '8 bit' if kinds & {'FakeQuantize', 'QuantizeLinear', 'DequantizeLinear'} else 'float'


def openvino_message(error: Exception) -> str:
    """The line of an error of OpenVINO's that says what is wrong, mostly after the places in its own source."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    plain = [line for line in lines if not line.startswith(('Exception from', 'Check '))]
    wanted = [line for line in plain if 'support' in line.lower() or 'translator' in line.lower()]
    line = (wanted or plain[-1:] or lines[-1:] or [type(error).__name__])[0]
    return printable(line)


def sizes_of(value) -> tuple[int | None, ...]:
    """Shape of an input or output, None where the file leaves a size open; empty where it leaves all open."""
    shape = value.get_partial_shape()
    return (
        tuple(size.get_length() if size.is_static else None for size in shape)
        if shape.rank.is_static
        else ()
    )


def beside_image(
    name: str, lengths: Sequence[int | None], size: tuple[int, int]
) -> tuple[int, ...]:
    """The lengths of an input beside the image, without that of the batch, given the image's height and width in px."""
    usual = size if is_mask(name, len(lengths) + 1) else [1] * len(lengths)
    return tuple(known or length for known, length in zip(lengths, usual))


def is_mask(name: str, dimensions: int) -> bool:
    """Whether an input `[1, height, width]` tells which pixels are of the image, as in DETR's family."""
    return 'mask' in name.lower() and dimensions == 3


def side_values(name: str, shape: Sequence[int], size: tuple[int, int]) -> np.ndarray:
    """What an input beside the image holds for an image of that height and width in px: a mask of ones, its size, or,
    by its name, the factor by which it was scaled."""
    if is_mask(name, len(shape)) or 'scale' in name.lower():
        return np.ones(shape)
    sides = size[::-1] if name.lower() in _WIDTH_FIRST else size
    return np.resize(np.array(sides), shape)


def _read(file: Path):
    if file.suffix.lower() not in EXPORT_SUFFIXES:
        raise ModelError(
            f'{file} is no exported detector, expected a file that ends with {", ".join(EXPORT_SUFFIXES)}'
        )
    try:
        check_kind(file)
    except FileNotFoundError:
        raise ModelError(f'{file} does not exist, expected an exported detector') from None
    except (OSError, FileRefused) as error:
        raise ModelError(
            f'{file} cannot be read: {error}, expected an exported detector'
        ) from error
    load_openvino()
    try:
        return (
            read_tflite(file)
            if file.suffix.lower() == '.tflite'
            else openvino_core().read_model(file)
        )
    except RuntimeError as error:
        raise ModelError(
            f'{file} cannot be read by OpenVINO: {openvino_message(error)}. Export it with a standard opset and '
            f'without operations of its own (for YOLO: without suppression inside)'
        ) from error


def _take_batches(model) -> None:
    """Gives the only input of a model of single images `[3, H, W]`, as torchvision exports, an axis for a batch."""
    from openvino import opset13

    if (
        len(model.inputs) != 1
        or len(sizes_of(model.input())) != 3
        or sizes_of(model.input())[0] != 3
    ):
        return
    value, single = model.input(), model.input().get_node()
    sides = [-1 if side is None else side for side in sizes_of(value)]
    batch = opset13.parameter(
        [1, *sides], value.get_element_type(), name=single.get_friendly_name()
    )
    names = set(value.get_names())
    single.output(0).replace(opset13.squeeze(batch, np.int64([0])).output(0))
    batch.output(0).set_names(names)
    model.remove_parameter(single)
    model.add_parameters([batch])
    model.validate_nodes_and_infer_types()


def _take_single_images(model, image, file: Path) -> None:
    """Makes a batch of one of a larger one.

    Raises:
        ModelError: layers depend on its size otherwise than by one dimension of what they give.
    """
    from openvino import opset13

    batch = sizes_of(image)[0]
    ops = [op for op in model.get_ordered_ops() if op.get_type_name() != 'Constant']
    before = [[sizes_of(value) for value in op.outputs()] for op in ops]
    for op in ops:
        target = op.input_value(1).get_node() if op.get_type_name() == 'Reshape' else None
        if target is None or target.get_type_name() != 'Constant':
            continue
        lengths = target.get_data().astype(np.int64)
        if len(lengths) and lengths[0] == batch:
            lengths[0] = 1
            op.input(1).replace_source_output(opset13.constant(lengths).output(0))
    shapes = {
        value: [1, *(-1 if length is None else length for length in sizes_of(value)[1:])]
        for value in model.inputs
        if sizes_of(value)[:1] == (batch,)
    }
    try:
        model.reshape(shapes)
    except RuntimeError as error:
        raise ModelError(_of_batches(file, batch)) from error
    after = [[sizes_of(value) for value in op.outputs()] for op in ops]
    changes = zip(chain(*before), chain(*after))
    if not all(_is_shrunk(old, new, batch) for old, new in changes) or any(
        sizes_of(value)[:1] == (batch,) for value in model.outputs
    ):
        raise ModelError(_of_batches(file, batch))


def _of_batches(file: Path, batch: int) -> str:
    return f'{file} takes {batch} images at once, expected one: export it with a batch of 1'


def _is_shrunk(old: tuple[int | None, ...], new: tuple[int | None, ...], batch: int) -> bool:
    """Whether the shape of a layer changes as where images become fewer: in at most one dimension, by the batch."""
    changed = [place for place, pair in enumerate(zip(old, new)) if pair[0] != pair[1]]
    if len(old) != len(new) or len(changed) > 1:
        return False
    return not changed or old[changed[0]] == (new[changed[0]] or 0) * batch


def _image_input(model, file: Path):
    """The input that takes the image."""
    fitting = [value for value in model.inputs if _is_image(sizes_of(value))]
    if len(fitting) > 1:
        named = [value for value in fitting if value.get_names() & set(_IMAGE_NAMES)]
        fitting = named or fitting
    if len(fitting) == 1:
        return fitting[0]
    listed = '; '.join(
        f'{_name(value)} [{", ".join("?" if size is None else str(size) for size in sizes_of(value))}]'
        for value in model.inputs[:6]
    )
    raise ModelError(
        f'inputs of {file} are {listed or "none"}, expected one image [1, 3, height, width] or '
        f'[1, height, width, 3]'
    )


def _is_image(shape: tuple[int | None, ...]) -> bool:
    return len(shape) == 4 and shape[0] != 0 and (shape[1] in (3, None) or shape[3] == 3)


def _name(value) -> str:
    name = value.get_any_name() if value.get_names() else '(unnamed)'
    return printable(name, 60)


def _fix_sizes(model, image, size: tuple[int, int]) -> None:
    """Makes constants of the inputs that tell the size of the image, its pixels, or the factor by which it was scaled."""
    from openvino import opset13

    for value in list(model.inputs):
        if value.get_node() == image.get_node():
            continue
        shape, name = sizes_of(value), _name(value)
        if shape not in ((1, 2), (2,), (1, 4)) and not is_mask(name, len(shape)):
            raise ModelError(
                f'input {name} {list(shape)} is not known, expected the image alone, or its size beside '
                f'it as [1, 2]'
            )
        parameter = value.get_node()
        kind = value.get_element_type().to_dtype()
        constant = opset13.constant(side_values(name, shape, size).astype(kind))
        parameter.output(0).replace(constant.output(0))
        model.remove_parameter(parameter)
    model.validate_nodes_and_infer_types()


def _check_loops(model, file: Path, outer: int = 1) -> None:
    """Refuses loops, also in bodies of others and in branches, that may go on for longer than a few rounds.

    Args:
        outer: rounds of the loops that the model is a body of, multiplied.
    """
    for op in model.get_ops():
        rounds = outer * _rounds(op, file)
        if rounds > _MOST_ROUNDS:
            raise _too_long(file, f'of {rounds} rounds')
        for body in bodies(op):
            _check_loops(body, file, rounds)


def _rounds(op, file: Path) -> int:
    """How often a layer runs its body; 1 of one that has none, or as many rounds as an open length."""
    kind = op.get_type_name()
    if kind == 'TensorIterator':
        return max(1, op.get_num_iterations())
    if kind != 'Loop':
        return 1
    rounds = _constant(op.input_value(0))
    if rounds is None:
        raise _too_long(file, 'whose number of rounds is computed')
    if rounds < 0:
        raise _too_long(file, 'without end')
    return max(1, rounds)


def _too_long(file: Path, said: str) -> ModelError:
    return ModelError(f'{file} has a loop {said}, expected at most {_MOST_ROUNDS} stated rounds')


def _constant(value) -> int | None:
    """A number that is stated, or computed of stated ones alone; None of any other."""
    from openvino import Model
    from openvino.passes import ConstantFolding, Manager

    if value.get_node().get_type_name() != 'Constant':
        try:
            alone = Model([value], [])
        except RuntimeError:  # it depends on what the network is given
            return None
        folding = Manager()
        folding.register_pass(ConstantFolding())
        folding.run_passes(alone)
        value = alone.get_results()[0].input_value(0)
    node = value.get_node()
    return int(node.get_data().reshape(-1)[0]) if node.get_type_name() == 'Constant' else None


def _outputs(model) -> list[Output]:
    return [
        Output(_name(value), sizes_of(value), value.get_element_type().is_integral())
        for value in model.outputs
    ]
