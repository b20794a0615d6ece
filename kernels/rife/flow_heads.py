"""What the refinement of flow (`kernels.rife.flow_refine`) and its Triton bodies share: widths, and the output of a block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from torch import Tensor

SIDE_CHANNELS: Final = 8
INPUT_CHANNELS: Final = 32
MAX_HEADS: Final = 5


@dataclass(frozen=True)
class Head:
    """Output of one block.

    Attributes:
        values: (n, h, w, sub * sub * channels), the type of the sides.
        up: Pixels per grid step, >= 1.
        sub: Grid points per cell and axis: 4 or 2.
        channels: Per grid point: 8, or 16 with features.
    """

    values: Tensor
    up: int
    sub: int
    channels: int
