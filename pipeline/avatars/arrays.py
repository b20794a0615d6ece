"""The checks of an avatar's arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def sized_array(
    tensors: Mapping[str, NDArray[np.generic]], name: str, dtype: type[np.generic], shape: tuple[int, ...]
) -> Any:
    """The array of that name; -1 in `shape` stands for any size of at least 1.

    Raises:
        ShapeError: It is missing, or has another shape or element type; it names the array.
    """
    found = tensors.get(name)
    if found is None:
        raise ShapeError(f"tensors.{name}", "none", f"{np.dtype(dtype)} {shape}")
    fits = found.ndim == len(shape) and all(
        want in (-1, size) and size >= 1 for want, size in zip(shape, found.shape, strict=True)
    )
    if found.dtype != dtype or not fits:
        raise ShapeError(f"tensors.{name}", f"{found.dtype} {found.shape}", f"{np.dtype(dtype)} {shape}")
    return found
