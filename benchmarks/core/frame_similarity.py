"""How alike two pictures are: PSNR and SSIM on luma, whole or inside a box."""

from __future__ import annotations

import numpy as np

from kernels.arrays import F32, F64, U8
from kernels.errors import ShapeError

LUMA = np.array([0.2126, 0.7152, 0.0722], np.float32)
"""BT.709."""
IDENTICAL_DB = 99.0
"""PSNR that equal pictures count as, so that means exist."""
_K1, _K2, _SIGMA = 0.01, 0.03, 1.5


def luma_of(rgb: U8) -> F32:
    """RGB uint8 (h, w, 3) -> float32 (h, w), 0..255."""
    luma: F32 = rgb.astype(np.float32) @ LUMA
    return luma


def psnr_db(luma: F32, other: F32) -> float:
    """Peak signal-to-noise ratio, MAX = 255.

    Raises:
        ShapeError: Pictures of different sizes.
    """
    _same(luma, other)
    error = float(np.mean((luma.astype(np.float64) - other) ** 2))
    return IDENTICAL_DB if error == 0.0 else min(IDENTICAL_DB, float(10.0 * np.log10(255.0**2 / error)))


def ssim(luma: F32, other: F32) -> float:
    """Structural similarity (Wang, Bovik, Sheikh, Simoncelli 2004): Gaussian window, sigma 1.5, K 0.01 and 0.03; 1 = equal.

    Raises:
        ShapeError: Pictures of different sizes.
    """
    import cv2

    _same(luma, other)

    def blur(picture: F32) -> F64:
        return np.asarray(cv2.GaussianBlur(picture.astype(np.float64), (11, 11), _SIGMA), np.float64)

    mean, mean_other = blur(luma), blur(other)
    variance = blur(luma * luma) - mean**2
    variance_other = blur(other * other) - mean_other**2
    shared = blur(luma * other) - mean * mean_other
    c1, c2 = (_K1 * 255.0) ** 2, (_K2 * 255.0) ** 2
    top = (2.0 * mean * mean_other + c1) * (2.0 * shared + c2)
    bottom = (mean**2 + mean_other**2 + c1) * (variance + variance_other + c2)
    return float(np.mean(top / bottom))


def _same(luma: F32, other: F32) -> None:
    if luma.shape != other.shape or luma.ndim != 2:
        raise ShapeError("other", str(other.shape), f"{luma.shape}, two axes")
