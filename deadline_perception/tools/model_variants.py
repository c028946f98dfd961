"""Further members of a set that one file gives without training: in 8 bit, and at several sizes where it is open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from deadline_perception.extras.external_models.exported.exported_file import (
    read_exported,
    with_size,
)
from deadline_perception.extras.external_models.exported.pixels import InputForm, place, read_values
from deadline_perception.extras.external_models.model_set.set_file import ModelSpec
from deadline_perception.tools.support.model_process import ask, serve

_SHARES = (1.0, 0.75, 0.5)  # of the longer side, in which a file of open size is taken
_LIMIT_S = 3600.0


def at_open_sizes(spec: ModelSpec, image_size: tuple[int, int], is_stated: bool) -> list[ModelSpec]:
    """The detector at several sizes of the camera's proportions, the largest first; itself where its size is fixed, or
    stated by the user.

    Args:
        spec: the detector; of an open file its size is the largest.
        image_size: height and width of the camera's images in px.
        is_stated: the user has said the size.
    """
    if spec.kind != 'onnx' or spec.input_size is None or is_stated:
        return [spec]
    exported = read_exported(spec.file)
    if not exported.is_open:
        return [spec]
    longest = max(spec.input_size)
    sizes = dict.fromkeys(
        size_at(longest * share, image_size, exported.stated.stride_px) for share in _SHARES
    )
    return [
        replace(spec, name=f'{spec.name}_{width}x{height}', input_size=(height, width))
        for height, width in sizes
    ]


def size_at(longest_px: float, image_size: tuple[int, int], stride_px: int) -> tuple[int, int]:
    """Height and width in px, multiples of a stride, of a longest side and about the proportions of an image."""
    sides = [
        max(stride_px, stride_px * round(longest_px * side / max(image_size) / stride_px))
        for side in image_size
    ]
    return sides[0], sides[1]


def name_in_8_bit(spec: ModelSpec) -> str:
    """What the detector is called in 8 bit."""
    return f'{spec.name}_8bit'


def quantised(spec: ModelSpec, images: Sequence[np.ndarray], folder: Path) -> ModelSpec:
    """The detector in 8 bit, its ranges measured on images; written to a folder as OpenVINO IR. Blocks for a minute.

    Raises:
        ModelError: it cannot be quantised; says why.
    """
    out = folder / f'{spec.name}.xml'
    folder.mkdir(parents=True, exist_ok=True)
    ask('model_variants', {'spec': spec, 'out': out}, {'images': images}, spec.name, _LIMIT_S)
    return replace(spec, name=name_in_8_bit(spec), file=out)


def _work(order: dict, arrays: dict[str, list[np.ndarray]]) -> dict:
    import nncf

    from deadline_perception.engines.openvino_library import load_openvino, own_signal_stack
    from deadline_perception.extras.external_models.model_set.onnx_detector import input_size

    spec, images = ModelSpec(**order['spec']), arrays['images']
    exported = read_exported(spec.file)
    size = input_size(exported, InputForm(spec.input_size), spec.file)
    with_size(exported, size, spec.file)
    form = InputForm(size, spec.resize, spec.channels, spec.mean, spec.deviation)

    def read(image: np.ndarray) -> np.ndarray:
        values = read_values(place(image, size, form.resize), form)
        return np.ascontiguousarray(
            (values.transpose(2, 0, 1) if exported.by_planes else values)[None]
        )

    kinds = {op.get_type_name() for op in exported.model.get_ops()}
    has_attention = 'Softmax' in kinds and 'MatMul' in kinds
    with own_signal_stack():
        model = nncf.quantize(
            exported.model,
            nncf.Dataset(images, read),
            subset_size=len(images),
            model_type=nncf.ModelType.TRANSFORMER if has_attention else None,
        )
    load_openvino().save_model(model, Path(order['out']), compress_to_fp16=False)
    return {}


if __name__ == '__main__':
    serve(_work)
