"""How much memory the layers of a file take, by its shapes alone: a few bytes of file may state a layer of gigabytes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from deadline_perception.extras.external_models.exported.model_error import ModelError

MOST_BYTES = 4 * 2**30  # of the values that are needed at once
_GB = 1e9


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
