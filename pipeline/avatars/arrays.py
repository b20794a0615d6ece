"""The check of one array of an avatar."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernels.errors import ShapeError


def check_array(name: str, array: NDArray[np.generic], dtype: type[np.generic], shape: tuple[int, ...]) -> None:
    """Refuse an array that has another shape or element type.

    Raises:
        ShapeError: It names the array.
    """
    if array.dtype != dtype or array.shape != shape:
        raise ShapeError(name, f"{array.dtype} {array.shape}", f"{np.dtype(dtype)} {shape}")
