"""How HuBERT sees speech: stateless calls on 6480 samples, five frames kept of each (ditto.md section 6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from kernels.arrays import F32
from pipeline.types import SAMPLES_PER_FRAME

WINDOW_SAMPLES: Final = 10 * SAMPLES_PER_FRAME + 80
"""3 + 5 + 2 frames and what the convolutions need for exactly 20 rows."""
HOP_FRAMES: Final = 5
HOP_SAMPLES: Final = HOP_FRAMES * SAMPLES_PER_FRAME
ROWS_KEPT: Final = slice(-14, -4)
OFFLINE_LEAD: Final = WINDOW_SAMPLES - 7 * SAMPLES_PER_FRAME
ONLINE_LEAD: Final = 3 * SAMPLES_PER_FRAME
"""80 samples (5 ms) less than offline: the two modes differ by that much, as in the reference."""

Encoder = Callable[[F32], F32]
"""Samples (6480,) -> rows (20, 1024)."""


def keep_frames(rows: F32) -> F32:
    """Encoder rows (20, d) -> the five frames (5, d) that this window stands for."""
    kept = rows[ROWS_KEPT].reshape(HOP_FRAMES, 2, -1)
    return np.asarray(kept.mean(axis=1), np.float32)
