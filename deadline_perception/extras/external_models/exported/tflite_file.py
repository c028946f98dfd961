"""TensorFlow Lite files, also those that end with `TFLite_Detection_PostProcess`, which OpenVINO does not know.

The file's operation (anchors, scores without background, suppression to 10 objects) is cut off and replaced by the same
decoding as layers, so that what remains is a head of boxes and class scores.
"""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path

import numpy as np

from deadline_perception.core.untrusted_file import read_bytes
from deadline_perception.engines.openvino_library import openvino_core
from deadline_perception.extras.external_models.exported.model_error import ModelError

_POST_PROCESS = b'TFLite_Detection_PostProcess'
_OUTPUTS_FIELD, _OPERATORS_FIELD = 8, 10  # of a subgraph, in the tables of TensorFlow Lite's schema
_MOST_BYTES = 2**30
# Operations that give several tensors, or as many as their options or graphs say; every other one gives one.
_OF_SEVERAL = (
    *('SPLIT', 'SPLIT_V', 'UNPACK', 'TOPK_V2', 'UNIQUE', 'IF', 'WHILE', 'CUSTOM', 'CALL_ONCE'),
    *('NON_MAX_SUPPRESSION_V4', 'NON_MAX_SUPPRESSION_V5', 'BIDIRECTIONAL_SEQUENCE_LSTM'),
    *('BIDIRECTIONAL_SEQUENCE_RNN', 'LSTM', 'CALL', 'STABLEHLO_WHILE', 'STABLEHLO_COMPOSITE'),
)


def read_tflite(file: Path):
    """The OpenVINO model of a file; one with a post-processing has outputs `boxes` `[1, N, 4]`, corners from 0 to 1,
    and `class_scores` `[1, N, C]`.

    Raises:
        ModelError: the file is none, or the package that reads it is not installed.
        RuntimeError: OpenVINO cannot read it.
    """
    try:
        import tflite
        from flatbuffers import flexbuffers
    except ImportError as error:
        raise ModelError(
            f'{file} needs the package tflite, which is not installed: pip install tflite'
        ) from error
    try:
        content = bytearray(read_bytes(file, _MOST_BYTES))
        if content[4:8] != b'TFL3':
            raise ValueError('it does not begin as one')
        model = tflite.Model.GetRootAsModel(content, 0)
        _check_outputs(model, tflite.BuiltinOperator)
        graph = model.Subgraphs(0)
        last = graph.Operators(graph.OperatorsLength() - 1)
        if model.OperatorCodes(last.OpcodeIndex()).CustomCode() != _POST_PROCESS:
            return openvino_core().read_model(file)
        options = flexbuffers.GetRoot(last.CustomOptionsAsNumpy().tobytes()).AsMap
        inputs = last.InputsAsNumpy().tolist()
        boxes, scores, anchors = (_Tensor(model, graph.Tensors(place)) for place in inputs)
        scales = np.float32(
            [options[name].AsFloat for name in ('y_scale', 'x_scale', 'h_scale', 'w_scale')]
        )
        classes = options['num_classes'].AsInt
        _cut_last(graph, content, inputs[:2])
        prior = anchors.constant()
        with tempfile.TemporaryDirectory() as folder:
            cut = Path(folder) / 'cut.tflite'
            cut.write_bytes(content)
            return _with_decoding(
                openvino_core().read_model(cut), boxes, scores, prior, scales, classes
            )
    except (
        struct.error,
        OSError,
        ValueError,
        LookupError,
        ArithmeticError,
        TypeError,
        AttributeError,
        AssertionError,  # of flexbuffers
    ) as error:
        raise ModelError(
            f'{file} cannot be read as a TensorFlow Lite file: {str(error)[:200]!r}'
        ) from error


class _Tensor:
    """What the file says of one tensor."""

    def __init__(self, model, tensor) -> None:
        quantisation = tensor.Quantization()
        scales = None if quantisation is None else quantisation.ScaleAsNumpy()
        is_quantised = scales is not None and np.size(scales) == 1
        self.scale = float(np.reshape(scales, -1)[0]) if is_quantised else 1.0
        self.zero = (
            float(np.reshape(quantisation.ZeroPointAsNumpy(), -1)[0]) if is_quantised else 0.0
        )
        self._shape = tensor.ShapeAsNumpy()
        self._data = model.Buffers(tensor.Buffer()).DataAsNumpy()
        self._is_float = not is_quantised

    def constant(self) -> np.ndarray:
        """Its values, float32."""
        if self._is_float:
            return np.frombuffer(self._data.tobytes(), np.float32).reshape(self._shape)
        return (self._data.astype(np.float32).reshape(self._shape) - self.zero) * self.scale


def _check_outputs(model, kinds: type) -> None:
    """OpenVINO reads beyond its memory where an operation names more outputs than it has."""
    several = {getattr(kinds, name, None) for name in _OF_SEVERAL}
    for graph in map(model.Subgraphs, range(model.SubgraphsLength())):
        for one in map(graph.Operators, range(graph.OperatorsLength())):
            code = model.OperatorCodes(one.OpcodeIndex())
            kind = max(
                code.BuiltinCode(), code.DeprecatedBuiltinCode()
            )  # old files have the latter
            if kind not in several and one.OutputsLength() > 1:
                raise ValueError(f'an operation gives {one.OutputsLength()} outputs, expected 1')


def _cut_last(graph, content: bytearray, outputs: list[int]) -> None:
    """Takes the last operation out of a file, and makes these tensors its outputs."""
    table = graph._tab  # the schema's classes only read
    place = table.Vector(table.Offset(_OUTPUTS_FIELD))
    struct.pack_into('<i', content, place - 4, len(outputs))
    struct.pack_into(f'<{len(outputs)}i', content, place, *outputs)
    place = table.Vector(table.Offset(_OPERATORS_FIELD))
    struct.pack_into('<i', content, place - 4, graph.OperatorsLength() - 1)


def _with_decoding(
    model, boxes: _Tensor, scores: _Tensor, anchors: np.ndarray, scales: np.ndarray, classes: int
):
    """The model with boxes decoded against anchors (centre y, x, height, width; Liu et al. 2016, SSD, section 2.2)
    and without the score of the background, which comes before those of the classes in SSD and not in EfficientDet."""
    import openvino
    from openvino import opset13 as ops

    def real(value, tensor: _Tensor):
        steps = ops.subtract(ops.convert(value, 'f32'), ops.constant(np.float32(tensor.zero)))
        return ops.multiply(steps, ops.constant(np.float32(tensor.scale)))

    encoded = real(model.output(0).get_node().input_value(0), boxes)
    given = ops.divide(encoded, ops.constant(scales.reshape(1, 1, 4)))
    prior = anchors.reshape(1, -1, 4)
    offsets, growth = ops.split(given, 2, 2).outputs()
    sides = ops.constant(np.ascontiguousarray(prior[..., 2:]))
    centres = ops.add(
        ops.multiply(offsets, sides), ops.constant(np.ascontiguousarray(prior[..., :2]))
    )
    half = ops.multiply(ops.multiply(ops.exp(growth), sides), ops.constant(np.float32(0.5)))
    corners = ops.concat([ops.subtract(centres, half), ops.add(centres, half)], 2)
    by_x = ops.gather(corners, ops.constant(np.int64([1, 0, 3, 2])), ops.constant(np.int64(2)))
    given = real(model.output(1).get_node().input_value(0), scores)
    without_background = ops.slice(given, [-classes], [2**31 - 1], [1], [2])
    by_x.output(0).set_names({'boxes'})
    without_background.output(0).set_names({'class_scores'})
    results = [ops.result(by_x.output(0)), ops.result(without_background.output(0))]
    return openvino.Model(results, model.get_parameters())
