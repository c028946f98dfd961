"""Files of detectors whose outputs are known: OpenVINO IR of one small graph, which gives the arrays of a test whatever
the image shows."""
from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

SIZE = (64, 96)


def known_outputs(file: Path, outputs: Mapping[str, np.ndarray], *, size: tuple[int | None, int | None] = SIZE,
                  beside: Mapping[str, tuple[tuple[int, ...], type]] | None = None, image: str = 'images',
                  kind: type = np.float32, by_planes: bool = True) -> Path:
    """A file that gives these arrays.

    Args:
        file: to write, `.xml`.
        outputs: by name; one that begins with `?` has none.
        size: height and width in px, None where they are open.
        beside: shapes and types of further inputs by name, whose values are multiplied by 0 as the image's are.
        image: name of the input of the image.
        kind: type of its values.
        by_planes: channels come before height and width.
    """
    import openvino
    from openvino import opset13 as ops

    sides = [-1 if side is None else side for side in size]
    inputs = {image: ([1, 3, *sides] if by_planes else [1, *sides, 3], kind), **(beside or {})}
    given = [ops.parameter(list(shape), other) for shape, other in inputs.values()]
    nothing = ops.constant(np.float32(0.0))
    for name, one in zip(inputs, given):
        one.output(0).set_names({name})
        total = ops.reduce_sum(ops.convert(one, 'f32'), np.arange(len(one.get_partial_shape())))
        nothing = ops.add(nothing, ops.multiply(total, ops.constant(np.float32(0.0))))
    results = []
    for name, values in outputs.items():
        value = ops.convert(nothing, openvino.Type(values.dtype).get_type_name())
        value = ops.add(ops.constant(values), value).output(0)
        if not name.startswith('?'):
            value.set_names({name})
        results.append(ops.result(value))
    openvino.save_model(openvino.Model(results, given), file, compress_to_fp16=False)
    return file
