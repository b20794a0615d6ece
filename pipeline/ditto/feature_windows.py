"""How HuBERT sees speech: stateless calls on 6480 samples, five frames kept of each (ditto.md section 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


def offline_features(pcm: F32, encode: Encoder) -> F32:
    """Features of a whole clip.

    Args:
        pcm: float32 (n,), 16 kHz.
        encode: The encoder.

    Returns:
        float32 (ceil(n / 640), 1024).
    """
    frames = -(-len(pcm) // SAMPLES_PER_FRAME)
    padded = np.concatenate([np.zeros(OFFLINE_LEAD, np.float32), pcm, np.zeros(WINDOW_SAMPLES, np.float32)])
    starts = range(0, -(-frames // HOP_FRAMES) * HOP_SAMPLES, HOP_SAMPLES)
    features = [keep_frames(encode(padded[start : start + WINDOW_SAMPLES])) for start in starts]
    return np.concatenate(features)[:frames]


def online_windows(pcm: F32) -> Iterator[F32]:
    """The windows of a clip as a live session feeds them, the last ones padded with zeros."""
    padded = np.concatenate([np.zeros(ONLINE_LEAD, np.float32), pcm])
    for start in range(0, len(padded), HOP_SAMPLES):
        window = padded[start : start + WINDOW_SAMPLES]
        yield np.pad(window, (0, WINDOW_SAMPLES - len(window)))
