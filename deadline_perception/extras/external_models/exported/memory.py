"""How much memory the layers of a file take, by its shapes alone: a few bytes of file may state a layer of gigabytes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from deadline_perception.extras.external_models.exported.model_error import ModelError

MOST_BYTES = 4 * 2**30  # of the values that are needed at once
_GB = 1e9
# Inputs by which a layer becomes as long as their values say.
_LENGTHS = {
    'Broadcast': (1,),
    'Eye': (0, 1),
    'Interpolate': (1, 2),
    'OneHot': (1,),
    'Pad': (1, 2),
    'RandomUniform': (0,),
    'Range': (0, 1, 2),
    'Tile': (1,),
}
_STATED = ('Constant', 'ShapeOf')
# Of the pixels, but no larger than a layer is long: places, numbers of boxes, truth values.
_COUNTED = (
    *('NonZero', 'NonMaxSuppression', 'MatrixNms', 'MulticlassNms', 'NonMaxSuppressionIEInternal'),
    *('Equal', 'NotEqual', 'Greater', 'GreaterEqual', 'Less', 'LessEqual'),
)
_KEPT = (  # no layer of these makes values larger, but by how many it sums up
    *('Convert', 'Reshape', 'Squeeze', 'Unsqueeze', 'Concat', 'Gather', 'Slice', 'StridedSlice'),
    *('Split', 'VariadicSplit', 'Minimum', 'Maximum', 'ReduceSum', 'ReduceMax', 'ReduceMin'),
    *('LogicalAnd', 'LogicalOr', 'LogicalNot', 'Select', 'Transpose'),
)


def check_memory(model, file: Path) -> None:
    """Refuses layers that would take too much; allocates nothing.

    Args:
        model: of OpenVINO. Lengths that it leaves open count as 1.
        file: for the error.

    Raises:
        ModelError: the values that are needed at once take more than `MOST_BYTES`.
    """
    taken = peak_bytes(model)
    if taken > MOST_BYTES:
        raise ModelError(
            f'layers of {file} take {taken / _GB:.1f} GB at once, expected at most {MOST_BYTES / _GB:.1f} GB'
        )


def check_lengths(model, file: Path) -> None:
    """Refuses layers that become as long as pixels say: few on a black image, as a warm-up has, and gigabytes on others.

    Args:
        model: of OpenVINO, whose inputs beside the image are constants; what a body is given counts as pixels.
        file: for the error.

    Raises:
        ModelError: the length of a layer is computed from more than shapes, constants and counts.
    """
    known: dict[tuple[str, int, bool], bool] = {}
    for op in model.get_ordered_ops():
        for body in bodies(op):
            check_lengths(body, file)
        kind = op.get_type_name()
        for place in _LENGTHS.get(kind, ()):
            if place < op.get_input_size() and not _is_bounded(op.input_value(place), True, known):
                raise ModelError(
                    f'{file} has a layer {kind} whose length is computed from the pixels, expected a stated length'
                )


def _is_bounded(value, counts: bool, known: dict[tuple[str, int, bool], bool]) -> bool:
    """Whether a value follows from shapes and constants, or from counts where these are taken too."""
    op = value.get_node()
    kind = op.get_type_name()
    if (
        kind in _STATED
        or counts
        and (kind in _COUNTED or kind == 'TopK' and value.get_index() == 1)
    ):
        return True
    key = *_key(value), counts
    if key not in known:
        known[key] = False  # of an input of the model, and of whatever comes back to itself
        inputs = [one.get_source_output() for one in op.inputs()]
        known[key] = bool(inputs) and all(
            _is_bounded(one, counts and kind in _KEPT, known) for one in inputs
        )
    return known[key]


def peak_bytes(model) -> int:
    """Bytes of the values that are needed at once where layers run one after the other, without stated constants."""
    uses = Counter(
        _key(source)
        for op in model.get_ordered_ops()
        for source in (value.get_source_output() for value in op.inputs())
    )
    needed = peak = 0
    for op in model.get_ordered_ops():
        if op.get_type_name() == 'Constant':
            continue
        needed += sum(map(_bytes, op.outputs()))
        peak = max(peak, needed + max((peak_bytes(body) for body in bodies(op)), default=0))
        for value in op.inputs():
            source = value.get_source_output()
            uses[_key(source)] -= 1
            if not uses[_key(source)] and source.get_node().get_type_name() != 'Constant':
                needed -= _bytes(source)
        needed -= sum(_bytes(value) for value in op.outputs() if not uses[_key(value)])
    return peak


def bodies(op) -> tuple:
    """The models within a loop or a branch; empty for any other layer."""
    kind = op.get_type_name()
    if kind in ('Loop', 'TensorIterator'):
        return (op.get_function(),)
    return (op.get_then_body(), op.get_else_body()) if kind == 'If' else ()


def _key(value) -> tuple[str, int]:
    return value.get_node().get_name(), value.get_index()


def _bytes(value) -> int:
    shape = value.get_partial_shape()
    count = 1
    for length in shape if shape.rank.is_static else ():
        count *= length.get_length() if length.is_static else 1
    return count * value.get_element_type().bitwidth // 8
