"""Exported detectors whose outputs are known: OpenVINO files that give the same values for every image."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

SIZE = (64, 96)


def exported(
    file: Path,
    outputs: Mapping[str, np.ndarray],
    *,
    size: tuple[int | None, int | None] = SIZE,
    kind: str = 'f32',
    by_planes: bool = True,
    further: Mapping[str, tuple] | None = None,
    facts: Mapping[str, str] | None = None,
) -> Path:
    """A file with one image input and these outputs.

    Args:
        file: IR to write, `.xml`.
        outputs: values by name, as the layers give them.
        size: height and width of the input, None for an open one.
        kind: element type of the input.
        by_planes: its channels come first.
        further: shape and type of inputs beside the image, by name.
        facts: what the file says of itself, as ONNX metadata reach OpenVINO.
    """
    import openvino
    from openvino import opset13 as ops

    kinds = {name: getattr(openvino.Type, name) for name in ('f32', 'f16', 'u8', 'i64')}
    sides = [-1 if side is None else side for side in size]
    shape = [1, 3, *sides] if by_planes else [1, *sides, 3]
    image = ops.parameter(shape, kinds[kind], name='images')
    parameters = [image]
    mean = ops.reduce_mean(ops.convert(image, 'f32'), np.int64([0, 1, 2, 3]), False)
    zero = ops.multiply(mean, ops.constant(np.float32(0)))
    for name, (shape, element) in (further or {}).items():
        parameter = ops.parameter(list(shape), kinds[element], name=name)
        parameters.append(parameter)
        axes = np.arange(len(shape), dtype=np.int64)
        total = ops.reduce_sum(ops.convert(parameter, 'f32'), axes, False)
        zero = ops.add(zero, ops.multiply(total, ops.constant(np.float32(0))))
    results = []
    for name, values in outputs.items():
        value = ops.add(ops.constant(values.astype(np.float32)), zero)
        if values.dtype.kind == 'i':
            value = ops.convert(value, 'i64')
        value.output(0).set_names({name})
        results.append(ops.result(value.output(0)))
    for parameter in parameters:
        parameter.output(0).set_names({parameter.get_friendly_name()})
    model = openvino.Model(results, parameters)
    for name, value in (facts or {}).items():
        model.set_rt_info(value, ['framework', name])
    openvino.save_model(model, file, compress_to_fp16=False)
    return file
