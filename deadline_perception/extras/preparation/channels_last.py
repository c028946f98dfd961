"""Gives a compiled segment inputs and outputs with the channels last, where that costs least.

A transposition at each border would do, but OpenVINO drops those alone that stand between a convolution and memory:
beside the sum of a residual block, or a quantisation, it moves every value twice. So quantisation of an input and the
last additions and activations are computed channels last, next to memory, and the transpositions stand at convolutions.
The last ones are computed on rows, `[N * H * W, C]`: values with four dimensions it orders in memory as the convolution
does, and to bring them into the order that was asked for then costs more than all convolutions of a block.
"""

from __future__ import annotations

import numpy as np

from deadline_perception.engines.openvino_library import Model, Node

_TO_PLANES, _TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def channels_last(model: Model) -> Model:
    """A copy of a model whose inputs and outputs of four dimensions are `[N, H, W, C]`, of fixed shapes.

    Args:
        model: its values of four dimensions are `[N, C, H, W]`.
    """
    import openvino
    from openvino import opset13 as ops

    model = model.clone()
    places = []
    for old in model.get_parameters():
        if len(old.shape) != 4:
            places.append(old)
            continue
        shape = [old.shape[axis] for axis in _TO_LAST]
        new = ops.parameter(shape, old.get_element_type(), name=old.get_friendly_name())
        places.append(new)
        for reader in list(old.output(0).get_target_inputs()):
            node = reader.get_node()
            if _quantises_alike(node):
                levels = node.get_attributes()['levels']
                limits = [ops.constant(_constant(node, index).reshape(())) for index in range(1, 5)]
                quantised = ops.fake_quantize(new, *limits, levels)
                for after in list(node.output(0).get_target_inputs()):
                    after.replace_source_output(_transposed(quantised, _TO_PLANES))
            else:
                reader.replace_source_output(_transposed(new, _TO_PLANES))
    for result in model.get_results():
        if len(result.input(0).get_partial_shape()) == 4:
            count, channels, height, width = result.input(0).get_shape()
            rows = _rows(result.input_value(0))
            result.input(0).replace_source_output(_reshaped(rows, (count, height, width, channels)))
    return openvino.Model(model.get_results(), places, model.get_friendly_name())


def _rows(output: Node) -> Node:
    """The value of an output `[N, C, H, W]` as rows `[N * H * W, C]`: what can be computed so, is."""
    from openvino import opset13 as ops

    node = output.get_node()
    kind, inputs = node.get_type_name(), node.input_values()
    if kind == 'Relu':
        return ops.relu(_rows(inputs[0])).output(0)
    if kind == 'Add' and all(
        list(value.get_shape()) == list(output.get_shape()) for value in inputs
    ):
        return ops.add(*(_rows(value) for value in inputs)).output(0)
    is_last = kind == 'Transpose' and tuple(_constant(node, 1)) == _TO_PLANES
    last = inputs[0] if is_last else _transposed(output, _TO_LAST)
    return _reshaped(last, (-1, output.get_shape()[1]))


def _reshaped(value: Node, shape: tuple[int, ...]) -> Node:
    from openvino import opset13 as ops

    return ops.reshape(value, ops.constant(np.array(shape)), special_zero=False).output(0)


def _transposed(value: Node, order: tuple[int, ...]) -> Node:
    from openvino import opset13 as ops

    return ops.transpose(value, ops.constant(np.array(order))).output(0)


def _quantises_alike(node: Node) -> bool:
    """True of a quantisation by one scale for all channels."""
    return node.get_type_name() == 'FakeQuantize' and all(
        node.input_value(index).get_node().get_type_name() == 'Constant'
        and _constant(node, index).size == 1
        for index in range(1, 5)
    )


def _constant(node: Node, index: int) -> np.ndarray:
    return node.input_value(index).get_node().data
