"""Which rows of audio features a frame sees, and how the renderer is told their order.

Rows come at 50 Hz. Frame i sees ten of them, from `floor(i * 50 / fps) - 4` on: at 25 frames/s 80 ms of the past, its own 40 ms and
80 ms of what follows. Rows before the audio and after it are zero. The rate is a fraction, and four rows lie before a frame at
every rate; the reference rounds the rate to an integer and takes six rows below 25 frames/s (docs/musetalk.md, traps).
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kernels.arrays import F32
from kernels.errors import InvalidInputError, ShapeError
from pipeline.types import FEATURE_RATE_HZ

LAYERS: Final = 5
"""Hidden states of the speech encoder that make one row: its input, and what each of four layers makes."""
LAYER_DIM: Final = 384
ROW_DIM: Final = LAYERS * LAYER_DIM
ROWS_BEFORE: Final = 4
WINDOW_ROWS: Final = 10
TOKENS: Final = WINDOW_ROWS * LAYERS
WINDOW_DIM: Final = TOKENS * LAYER_DIM
NO_ROW: Final = -1


def window_rows(frames: int, rows: int, fps: Fraction | float = Fraction(25)) -> NDArray[np.int64]:
    """Rows that each frame sees.

    Args:
        frames: How many frames, >= 0.
        rows: Rows of features in all, at 50 Hz.
        fps: Frames per second, > 0; a fraction where it is no whole number (30000/1001 for 29.97).

    Returns:
        int64 (frames, 10), indices of rows; `NO_ROW` where there is none, which stands for a row of zeros.

    Raises:
        InvalidInputError: A rate that is not positive.
    """
    rate = Fraction(fps)
    if rate <= 0:
        raise InvalidInputError("fps", str(fps), "a positive rate")
    first = np.arange(frames, dtype=np.int64) * (FEATURE_RATE_HZ * rate.denominator) // rate.numerator - ROWS_BEFORE
    index = first[:, None] + np.arange(WINDOW_ROWS)
    index[(index < 0) | (index >= rows)] = NO_ROW
    return index


def windows_of(rows: F32, index: NDArray[np.int64]) -> F32:
    """The windows themselves.

    Args:
        rows: float32 (t, 1920), five layers of 384 behind each other.
        index: From `window_rows`.

    Returns:
        float32 (n, 19200): fifty tokens of 384, time first, layers within.

    Raises:
        ShapeError: Rows of another width.
    """
    if rows.ndim != 2 or rows.shape[1] != ROW_DIM:
        raise ShapeError("rows", str(rows.shape), f"(t, {ROW_DIM})")
    padded = np.concatenate([rows, np.zeros((1, ROW_DIM), np.float32)])
    windows: F32 = padded[index].reshape(len(index), WINDOW_DIM)
    return windows


@cache
def token_positions() -> F32:
    """What is added to the tokens, float32 (50, 384), read-only: the sine (even columns) and cosine (odd ones) of the position.

    The angle is `position / 10000^(2 i / 384)` for the columns 2 i and 2 i + 1 (Vaswani et al. 2017, section 3.5).
    """
    angles = np.arange(TOKENS)[:, None] / 10_000.0 ** (np.arange(0, LAYER_DIM, 2) / LAYER_DIM)
    positions = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(TOKENS, LAYER_DIM).astype(np.float32)
    positions.setflags(write=False)
    return positions
