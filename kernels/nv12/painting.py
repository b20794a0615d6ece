"""A painted face and the picture that it goes into, and where a resized line comes from: what all ways of `painted_nv12` share."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

_ONE: Final = 2048
"""A resize weight of 1."""


@dataclass(frozen=True, eq=False)
class Painting:
    """One face to be put into its picture; equal only to itself.

    Attributes:
        face: Index among the faces.
        patch: uint8 (h, w, 3), RGB, even sides, contiguous.
        mask: uint8 (h, w), contiguous, 255 where the face shows alone.
        box: Left, top, right and bottom of the face in patch pixels, right and bottom excluded; it may leave the patch.
        share: 0..1, how much of the face shows in all.
    """

    face: int
    patch: Tensor
    mask: Tensor
    box: tuple[int, int, int, int]
    share: float

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the patch."""
        return self.patch.shape[0], self.patch.shape[1]

    @property
    def weight(self) -> float:
        """What a mask's level is multiplied by, rounded to fp32."""
        return float(np.float32(self.share / 255.0))


@functools.lru_cache(maxsize=256)
def resize_taps(before: int, after: int, *, across: bool) -> NDArray[np.int32]:
    """Where a resized line comes from: int32 (after, 4), two source places and their weights, which sum to 2048.

    Beyond the outermost centres OpenCV gives the edge one weight along a line, and two, to the same edge, down a column.

    Args:
        before: Pixels of the source line.
        after: Pixels of the result.
        across: Along a line; else down a column.
    """
    step = 1.0 / (after / before)
    share = ((np.arange(after) + 0.5) * step - 0.5).astype(np.float32)
    first = np.floor(share).astype(np.int32)
    share -= first.astype(np.float32)
    if across:
        outside = (first < 0) | (first >= before - 1)
        share[outside] = 0.0
        first = first.clip(0, before - 1)
    second = (first + 1).clip(0, before - 1)
    weights = [np.rint(part * np.float32(_ONE)) for part in (np.float32(1) - share, share)]
    taps = np.stack([first.clip(0, before - 1), second, *weights], axis=1).astype(np.int32)
    taps.setflags(write=False)
    return taps
