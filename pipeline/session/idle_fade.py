"""From the last spoken pose back to idle motion: only the residual fades, two poses are never blended."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernels.arrays import F32

POSE_FADE_FRAMES = 16
MOUTH_FADE_FRAMES = 4
"""160 ms: the mouth is at rest inside the 200 ms that a viewer grants the end of a sentence."""


def _smooth_fall(ages: F32, length: int) -> F32:
    """1 at age 0, 0 from `length` on, with flat ends (smoothstep)."""
    x = np.clip(ages / length, 0.0, 1.0)
    fall: F32 = (1.0 - x * x * (3.0 - 2.0 * x)).astype(np.float32)
    return fall


@dataclass(frozen=True)
class IdleFade:
    """What is left of the spoken pose.

    Attributes:
        residual: float32 (width,), spoken minus idle motion at the last spoken frame.
        first_frame: Index of the first idle frame.
        mouth: Columns that fade fast.
    """

    residual: F32
    first_frame: int
    mouth: slice

    @classmethod
    def from_pose(cls, spoken: F32, idle: F32, first_frame: int, mouth: slice) -> IdleFade:
        """Start a fade: `spoken` and `idle` are (width,) at frame `first_frame - 1`; for `mouth` see `MotionBehaviour`."""
        return cls((spoken - idle).astype(np.float32), first_frame, mouth)

    def apply(self, idle: F32, first_frame: int) -> F32:
        """Idle motion (n, width) of frames from `first_frame` on, with what is left of the residual on top."""
        ages = np.arange(1, len(idle) + 1, dtype=np.float32) + (first_frame - self.first_frame)
        weights = np.repeat(_smooth_fall(ages, POSE_FADE_FRAMES)[:, None], idle.shape[1], axis=1)
        weights[:, self.mouth] = _smooth_fall(ages, MOUTH_FADE_FRAMES)[:, None]
        faded: F32 = idle + weights * self.residual
        return faded
