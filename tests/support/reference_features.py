"""The windows of speech that the reference's encoder sees (ditto.md section 6): of a whole clip, and in its online worker."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kernels.arrays import F32
from pipeline.ditto.feature_windows import (
    HOP_FRAMES,
    HOP_SAMPLES,
    OFFLINE_LEAD,
    ONLINE_LEAD,
    WINDOW_SAMPLES,
    Encoder,
    keep_frames,
)
from pipeline.types import SAMPLES_PER_FRAME


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
