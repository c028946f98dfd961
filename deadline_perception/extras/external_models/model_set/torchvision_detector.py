"""A detection model of torchvision with the user's weights, eager. Nothing is downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torchvision.models import detection, get_model, list_models

from deadline_perception.core.device import check_device
from deadline_perception.core.untrusted_file import FileRefused
from deadline_perception.engines.eager import Eager
from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.model_set.whole_detector import (
    BACKGROUND,
    WholeDetector,
)
from deadline_perception.extras.state_dict import read_state_dict


def architectures() -> tuple[str, ...]:
    """Names of torchvision's detection models."""
    return tuple(name for name in list_models(module=detection) if 'keypoint' not in name)


class TorchvisionDetector(WholeDetector):
    """See the module.

    Args:
        architecture: one of `architectures()`.
        file: its weights, as `torch.save` or safetensors wrote them; a checkpoint that has them under `model` or
            `state_dict` is taken too.
        outputs: see `WholeDetector`: for each label the model gives. As torchvision's models count from 1, a background
            is put before them where the weights have one label more.
        name: what it is called.
        input_size: height and width in px within which images are resized; None: as torchvision's model does.
        device: `cpu`, `cuda` or `cuda:INDEX`.

    Raises:
        ModelError: there is no such model, or the weights cannot be read or are of another model or number of classes.
        DeviceNotFound: the device is not there.
    """

    def __init__(
        self,
        architecture: str,
        file: Path,
        outputs: Sequence[str | None],
        *,
        name: str = '',
        input_size: tuple[int, int] | None = None,
        device: str = 'cpu',
    ) -> None:
        if architecture not in architectures():
            raise ModelError(
                f'torchvision has no detection model {architecture!r}, expected one of '
                f'{", ".join(architectures())}'
            )
        check_device(device)
        file = Path(file)
        weights = _read_weights(file)
        outputs = list(outputs)
        count = _matching_count(architecture, weights, (len(outputs) + 1, len(outputs)), file)
        if count == len(outputs) + 1:
            outputs = [None, *outputs]
        outputs = [None if output in (BACKGROUND, 'N/A') else output for output in outputs]
        # Small numbers of weights are random until the file's are loaded: nobody's random state is touched by that.
        with torch.random.fork_rng(devices=[]):
            self._model = _build(architecture, count)
        self._model.load_state_dict(weights)
        self._model.to(device).eval()
        fixed = getattr(self._model.transform, 'fixed_size', None)
        if (
            input_size is not None
            and fixed is not None
            and tuple(input_size) != tuple(reversed(fixed))
        ):
            raise ModelError(
                f'input size of {architecture} is stated as {tuple(input_size)} px, expected '
                f'{tuple(reversed(fixed))}, which it is made for; leave it out'
            )
        if input_size is not None and fixed is None:
            self._model.transform.min_size, self._model.transform.max_size = (
                (min(input_size),),
                max(input_size),
            )
        size = (
            tuple(reversed(fixed))
            if fixed
            else (self._model.transform.min_size[-1], self._model.transform.max_size)
        )
        super().__init__(
            name or architecture,
            outputs,
            input_size=size,
            shape=[architecture, count],
            file=file,
            device=str(device),
            engine=Eager(),
        )

    @torch.inference_mode()
    def prepare(self, image_bgr: np.ndarray) -> Tensor:
        """uint8 `[H, W, 3]` -> float32 `[3, H, W]`, RGB from 0 to 1; the model resizes it itself."""
        pixels = torch.from_numpy(np.ascontiguousarray(image_bgr)).to(self.device)
        return pixels.permute(2, 0, 1).flip(0).float().div_(255.0)

    @torch.inference_mode()
    def run_layers(self, prepared: Tensor) -> dict[str, Tensor]:
        """Boxes in px of the image, scores and labels, by name."""
        return self._model([prepared])[0]

    def decode(
        self, given: dict[str, Tensor], image_size: tuple[int, int]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `WholeDetector`."""
        return tuple(given[part].cpu().numpy() for part in ('boxes', 'scores', 'labels'))


def _build(architecture: str, count: int) -> nn.Module:
    return get_model(architecture, weights=None, weights_backbone=None, num_classes=count)


def _read_weights(file: Path) -> dict[str, Tensor]:
    try:
        content = read_state_dict(file)
    except FileNotFoundError:
        raise ModelError(
            f'weights {file} do not exist, expected a file that torch.save or safetensors wrote'
        ) from None
    except (OSError, FileRefused) as error:
        raise ModelError(f'weights {file} cannot be read: {error}') from error
    broken = next(
        (name for name, value in content.items() if not torch.isfinite(value).all()), None
    )
    if broken is not None:
        raise ModelError(
            f'weights {file} hold NaN or infinity in {broken}, expected finite weights'
        )
    return {name.removeprefix('module.'): value for name, value in content.items()}


def fits(architecture: str, file: Path, count: int) -> bool:
    """Whether weights are of a model with so many labels.

    Raises:
        ModelError: they cannot be read.
    """
    if architecture not in architectures():
        return False  # which is logged as the model is loaded
    return not _differences(architecture, _read_weights(Path(file)), count)[0]


def _differences(
    architecture: str, weights: dict[str, Tensor], count: int
) -> tuple[list[str], dict, dict]:
    """Names of tensors that are not as the model has them; its shapes, and those of the weights."""
    with torch.device('meta'):  # shapes without memory
        expected = {
            name: tuple(value.shape)
            for name, value in _build(architecture, count).state_dict().items()
        }
    found = {name: tuple(value.shape) for name, value in weights.items()}
    return (
        [name for name in sorted({*expected, *found}) if expected.get(name) != found.get(name)],
        expected,
        found,
    )


def _matching_count(
    architecture: str, weights: dict[str, Tensor], counts: tuple[int, ...], file: Path
) -> int:
    """The number of labels, of those given, with which the model has the shapes of the weights."""
    differences = []
    for count in counts:
        different, expected, found = _differences(architecture, weights, count)
        if not different:
            return count
        differences.append((different, expected, found))
    different, expected, found = differences[0]
    first = different[0]
    several = all(name in expected and name in found for name in different)
    hint = (
        'another number of classes: name the classes that it was trained with, in their order, without the '
        'background'
        if several
        else 'another model'
    )
    raise ModelError(
        f'weights {file} do not fit {architecture} with {counts[1]} classes and a background: '
        f'{len(different)} of its tensors differ, such as {first}: {found.get(first, "not there")} in the '
        f'file, expected {expected.get(first, "none")}. They seem to be of {hint}'
    )
