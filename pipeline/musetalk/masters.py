"""The frames of a clip as they are kept, in NV12, and as they are asked for."""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np

from kernels.arrays import F64, U8
from kernels.nv12.colour import colour_matrix

KEPT_COLOUR: Final = "bt709"
"""Standard of the planes in a bundle."""


def recoloured(y_plane: U8, uv_plane: U8, colour: str) -> tuple[U8, U8]:
    """Planes of a bundle in another standard, limited range; a copy in any case.

    Both standards are linear in R'G'B', so one 3 x 3 matrix leads from one to the other. Chroma is taken for its whole 2 x 2 block.

    Args:
        y_plane: uint8 (h, w).
        uv_plane: uint8 (h / 2, w).
        colour: `bt709` or `bt601`.
    """
    if colour == KEPT_COLOUR:
        return y_plane.copy(), uv_plane.copy()
    kept, wanted = colour_matrix(KEPT_COLOUR), colour_matrix(colour)
    turn: F64 = wanted.rgb_to_yuv @ np.linalg.inv(kept.rgb_to_yuv)
    luma = y_plane.astype(np.float32) - kept.offset[0]
    chroma = uv_plane.reshape(uv_plane.shape[0], -1, 2).astype(np.float32) - 128.0
    small = cv2.resize(luma, (chroma.shape[1], chroma.shape[0]), interpolation=cv2.INTER_AREA)
    block = np.concatenate([small[..., None], chroma], axis=2) @ turn.T.astype(np.float32)
    added = (chroma @ turn[0, 1:].astype(np.float32)).repeat(2, axis=0).repeat(2, axis=1)
    out_y = luma * np.float32(turn[0, 0]) + added + wanted.offset[0]
    return _rounded(out_y), _rounded(block[..., 1:] + 128.0).reshape(uv_plane.shape)


def to_rgb(y_plane: U8, uv_plane: U8) -> U8:
    """Planes of a bundle as a picture, uint8 (h, w, 3), RGB; chroma is interpolated linearly."""
    kept = colour_matrix(KEPT_COLOUR)
    height, width = y_plane.shape
    chroma = uv_plane.reshape(height // 2, width // 2, 2)
    wide = cv2.resize(chroma, (width, height), interpolation=cv2.INTER_LINEAR).astype(np.float32) - 128.0
    yuv = np.concatenate([y_plane[..., None].astype(np.float32) - kept.offset[0], wide], axis=2)
    return _rounded(yuv @ np.linalg.inv(kept.rgb_to_yuv).T.astype(np.float32))


def _rounded(values: np.ndarray) -> U8:
    return np.clip(np.floor(values + 0.5), 0.0, 255.0).astype(np.uint8)
