"""How long and how fast a network learns."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingPlan:
    """See the module.

    Attributes:
        steps: weight updates, >= 1.
        batch: images per step, >= 1.
        learning_rate: peak of AdamW's rate, > 0; linear warm-up, then a cosine down to 1 % of it.
        warm_up: steps of warm-up, >= 0; never more than a tenth of all steps.
        weight_decay: AdamW's, on convolution and matrix weights, >= 0.
        clip_norm: largest norm of a gradient, > 0.
        ema: largest decay of the averaged weights, which are the ones that ship, in [0, 1).
        seed: of samples, paths and anchors.
        bfloat16: compute in bfloat16 where it does no harm, on a device that does not emulate it.
        crop: height and width in px of the windows that the first steps train on, multiples of 32; None trains on
            whole images from the start. Windows around objects take less time each and hold more of what matters.
        crop_share: share of the steps that train on windows, in [0, 1]; the batch grows to fill the same area.
        sizes: heights and widths in px, multiples of 32, of which every step on whole images draws one; none stands
            for the input size. A network that will be read at several sizes, or at unknown distances, gains by it.
            At another than the input size, paths scale it no further.

    Raises:
        ValueError: a number lies outside its range.
    """

    steps: int
    batch: int = 4
    learning_rate: float = 6e-4
    warm_up: int = 150
    weight_decay: float = 0.05
    clip_norm: float = 5.0
    ema: float = 0.999
    seed: int = 0
    bfloat16: bool = True
    crop: tuple[int, int] | None = None
    crop_share: float = 0.5
    sizes: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        if self.steps < 1 or self.batch < 1:
            raise ValueError(
                f'steps is {self.steps} and batch {self.batch}, expected at least 1 each'
            )
        for name in ('learning_rate', 'clip_norm'):
            if not 0.0 < getattr(self, name) < math.inf:
                raise ValueError(
                    f'{name} is {getattr(self, name)}, expected a finite number above 0'
                )
        if not 0.0 <= self.weight_decay < math.inf:
            raise ValueError(
                f'weight_decay is {self.weight_decay}, expected a finite number of at least 0'
            )
        if self.warm_up < 0:
            raise ValueError(f'warm_up is {self.warm_up} steps, expected at least 0')
        if not 0.0 <= self.ema < 1.0:
            raise ValueError(f'ema is {self.ema}, expected a decay in [0, 1)')
        if not 0.0 <= self.crop_share <= 1.0:
            raise ValueError(f'crop_share is {self.crop_share}, expected a share in [0, 1]')
        for size in self.sizes if self.crop is None else (*self.sizes, self.crop):
            if min(size) < 32 or size[0] % 32 or size[1] % 32:
                raise ValueError(
                    f'training size is {size} px, expected positive multiples of 32 px'
                )

    def rate(self, step: int) -> float:
        """Learning rate of a step."""
        warm_up = min(self.warm_up, self.steps // 10)
        if step < warm_up:
            return self.learning_rate * (step + 1) / warm_up
        done = (step - warm_up) / max(1, self.steps - warm_up)
        return self.learning_rate * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))
