"""Bilinear sampling of a picture at given places on the CPU (OpenCV's remap)."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from kernels.arrays import F32

_NO_SECOND_MAP = np.empty(0, dtype=np.float32)


def remap_bilinear(picture: NDArray[Any], places: F32, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """Sample `picture` (h, w) or (h, w, c <= 4), uint8 or float32, at `places` (rows, columns, 2).

    Args:
        picture: Pixel centres at integers; continued by its edge pixels outside.
        places: float32, x then y, in pixels of `picture`.
        out: Where to write, contiguous; None makes a new array.

    Returns:
        (rows, columns) or (rows, columns, c), dtype of `picture`; weights are quantised to 1/32 pixel.
    """
    return np.asarray(
        cv2.remap(picture, places, _NO_SECOND_MAP, cv2.INTER_LINEAR, dst=out, borderMode=cv2.BORDER_REPLICATE)
    )
