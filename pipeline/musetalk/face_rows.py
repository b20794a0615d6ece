"""What travels from features to the renderer: one row per frame, which says how much of a painted face it shows, and what it says.

Column 0 is that share, column 1 a weight, the others the tokens times the weight. A silent row is all zeros. When a session fades
from a spoken row back to a silent one, it scales columns; the weight scales with the tokens, so that dividing gives them back
whole, while the share falls faster, as `MotionBehaviour.mouth` says.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.arrays import F32
from kernels.errors import ShapeError
from pipeline.musetalk.audio_windows import LAYER_DIM, TOKENS, WINDOW_DIM, token_positions

SHARE: Final = slice(0, 1)
WEIGHT: Final = 1
TOKENS_FROM: Final = 2
ROW_WIDTH: Final = TOKENS_FROM + WINDOW_DIM
_LEAST: Final = 1e-3
"""A share below this cannot change a pixel, and tokens under such a weight are not read."""


class SpokenRows(NamedTuple):
    """Rows, read.

    Attributes:
        shares: float32 (n,), 0..1; 0: the frame shows the avatar's own picture.
        tokens: float32 (m, 50, 384), of the frames that show something, with their positions added.
    """

    shares: F32
    tokens: F32

    @property
    def painted(self) -> NDArray[np.intp]:
        """Indices of the m frames that `tokens` belong to."""
        return np.flatnonzero(self.shares)


def pack_rows(shares: F32, windows: F32) -> F32:
    """Rows float32 (n, 19202) of frames that show (n,) of what windows (n, 19200) say."""
    rows: F32 = np.empty((len(shares), ROW_WIDTH), np.float32)
    rows[:, SHARE] = shares[:, None]
    rows[:, WEIGHT] = 1.0
    rows[:, TOKENS_FROM:] = windows
    return rows


def silent_rows(count: int) -> F32:
    """Rows float32 (count, 19202) of frames that show the avatar's own pictures."""
    return np.zeros((max(count, 0), ROW_WIDTH), np.float32)


def read_rows(rows: F32, may_paint: NDArray[np.bool_]) -> SpokenRows:
    """Read rows.

    Args:
        rows: float32 (n, 19202).
        may_paint: bool (n,), whether the avatar's frame shows a face at all.

    Raises:
        ShapeError: Rows of another width.
    """
    if rows.ndim != 2 or rows.shape[1] != ROW_WIDTH:
        raise ShapeError("motion", str(rows.shape), f"(n, {ROW_WIDTH})")
    shown = (rows[:, 0] > _LEAST) & (rows[:, WEIGHT] > _LEAST) & may_paint
    shares = np.where(shown, np.minimum(rows[:, 0], 1.0), 0.0).astype(np.float32)
    told = rows[shown]
    tokens = (told[:, TOKENS_FROM:] / told[:, WEIGHT : WEIGHT + 1]).reshape(len(told), TOKENS, LAYER_DIM)
    return SpokenRows(shares, (tokens + token_positions()).astype(np.float32))
