"""Frames that need no painting: in silence the avatar's own pictures are shown, and both edges are faded.

A frame that starts at t is loud by the RMS over [t - 80 ms, t + 120 ms): what its window of features hears, so an onset within
the look-ahead is painted. Two thresholds and a few frames of patience keep it from flapping, as in `kernels.audio.rms_energy`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch

from kernels.arrays import F32
from kernels.audio.rms_energy import Hysteresis, hysteresis_mask, rms_energy
from kernels.errors import ShapeError
from pipeline.types import SAMPLES_PER_FRAME

EDGE_FRAMES: Final = 2
"""Whole frames before and after a frame that count for its loudness."""
HOLD_FRAMES: Final = 4
FADE_FRAMES: Final = 4


def frame_levels(pcm: F32) -> F32:
    """Loudness of frames, for `Bypass.step`.

    Args:
        pcm: float32 ((n + 4) * 640,), 16 kHz: the frames, two before them and two after them.

    Returns:
        float32 (n,), RMS of 200 ms around each frame, full scale 1.0, without DC.

    Raises:
        ShapeError: No whole frames, or not one with its edges.
    """
    edges = 2 * EDGE_FRAMES
    if pcm.ndim != 1 or len(pcm) % SAMPLES_PER_FRAME or len(pcm) <= edges * SAMPLES_PER_FRAME:
        raise ShapeError("pcm", str(pcm.shape), f"(n * {SAMPLES_PER_FRAME},) with n > {edges}")
    levels = rms_energy(
        torch.tensor(pcm, dtype=torch.float32), SAMPLES_PER_FRAME, (1 + edges) * SAMPLES_PER_FRAME
    ).numpy()
    inner: F32 = levels[EDGE_FRAMES:-EDGE_FRAMES]
    return inner


@dataclass(frozen=True)
class Bypass:
    """The state between calls.

    Attributes:
        weight: How much of the painted face the last frame showed, 0..1.
        speaking: Whether the last frame counted as speech.
        quiet_frames: Quiet frames in a row, up to the last one.
    """

    weight: float = 0.0
    speaking: bool = False
    quiet_frames: int = 0

    def step(self, levels: F32) -> tuple[F32, Bypass]:
        """Go on by some frames.

        Args:
            levels: float32 (n,), from `frame_levels`.

        Returns:
            float32 (n,), how much of the painted face each frame shows: 0 bypasses it; and the state after them.
        """
        gate = Hysteresis(hold_frames=HOLD_FRAMES, speaking=self.speaking, quiet_frames=self.quiet_frames)
        speech, speaking, quiet = hysteresis_mask(levels, gate)
        weight, weights = self.weight, np.zeros(len(levels), np.float32)
        for i, speaks in enumerate(speech):
            weight = min(max(weight + (1.0 if speaks else -1.0) / FADE_FRAMES, 0.0), 1.0)
            weights[i] = weight
        return weights, replace(self, weight=weight, speaking=speaking, quiet_frames=quiet)
