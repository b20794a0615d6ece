"""Frames that jump: where a video differs from its previous frame far more than around that moment.

The difference of two frames is that of the busiest hundredth of their 8x8 blocks. A mean over the whole picture would hide a
jump of the mouth in a still studio, and single pixels would report every key frame, which codes the same grain anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernels.arrays import F32, U8

BLOCK = 8
BUSIEST_SHARE = 0.01
MIN_BLOCKS = 4
WINDOW_FRAMES = 25
"""The neighbourhood against which a frame is judged, one second at 25 frames/s."""
MIN_SCALE = 0.25
"""Luma levels; keeps the coding noise of a still picture from counting as a jump."""
NORMAL_FROM_MAD = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


@dataclass(frozen=True)
class Spike:
    """A jump between two frames.

    Attributes:
        frame: Index of the frame that differs from the one before it.
        difference: `busiest_difference` to the frame before, luma levels.
        z: Robust standard deviations above the neighbourhood.
    """

    frame: int
    difference: float
    z: float


def block_means(luma: U8) -> F32:
    """Mean luma of each 8x8 block, float32 (about h / 8, about w / 8)."""
    import cv2

    height, width = luma.shape
    size = (max(1, width // BLOCK), max(1, height // BLOCK))
    return np.asarray(cv2.resize(luma.astype(np.float32), size, interpolation=cv2.INTER_AREA), np.float32)


def busiest_difference(blocks: F32, before: F32) -> float:
    """Mean absolute difference of the hundredth of blocks that changed most (at least four), luma levels."""
    steps = np.abs(blocks - before).ravel()
    count = min(len(steps), max(MIN_BLOCKS, int(len(steps) * BUSIEST_SHARE)))
    return float(np.partition(steps, len(steps) - count)[-count:].mean())


def find_spikes(differences: Sequence[float], z: float) -> list[Spike]:
    """Find jumps in a series of frame-to-frame differences.

    Each value is compared with the median of the second around it; the scale is the median absolute deviation of those
    residuals, at least `MIN_SCALE` and a tenth of the usual difference.

    Args:
        differences: One per frame; the first, which has no frame before it, is ignored.
        z: Threshold in robust standard deviations.

    Returns:
        Spikes in frame order.
    """
    values = np.asarray(differences, np.float64)[1:]
    if len(values) < 3:
        return []
    half = WINDOW_FRAMES // 2
    padded = np.pad(values, half, mode="reflect" if len(values) > half else "edge")
    local = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1), axis=1)
    residuals = values - local
    scale = max(NORMAL_FROM_MAD * float(np.median(np.abs(residuals))), MIN_SCALE, 0.1 * float(np.median(values)))
    scores = residuals / scale
    return [Spike(int(i) + 1, float(values[i]), float(scores[i])) for i in np.flatnonzero(scores > z)]


def find_new_spikes(differences: Sequence[float], reference: Sequence[float], z: float) -> list[Spike]:
    """Find jumps that a reference series does not have at that moment.

    What is judged is the excess over the reference. Two renderings of one clip move alike, so their ordinary motion cancels
    and a single wrong frame stands out even in fast speech. A jump that the reference makes one frame earlier or later counts
    as the same one.

    Args:
        differences: One per frame, the first ignored.
        reference: The same of the other video; only the frames that both have are looked at.
        z: Threshold in robust standard deviations.

    Returns:
        Spikes in frame order, with the difference itself (not the excess).
    """
    common = min(len(differences), len(reference))
    if common == 0:
        return []
    values = np.asarray(differences[:common], np.float64)
    excess = values - np.asarray(reference[:common], np.float64)
    of_reference = np.array([spike.frame for spike in find_spikes((-excess).tolist(), z)], np.int64)
    return [
        Spike(spike.frame, float(values[spike.frame]), spike.z)
        for spike in find_spikes(excess.tolist(), z)
        if not np.any(np.abs(of_reference - spike.frame) <= 1)
    ]
