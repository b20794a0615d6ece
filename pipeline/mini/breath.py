"""Breath: the chest rises and sinks, silent or speaking, as a function of (seed, frame index).

Motion carries it where nothing else is (`engines.mini.motion_limits.BREATH`), in face widths. Speech begins at the height that the
viewer saw last; what that differs from the session's own wave fades away over about a second.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engines.mini.motion_limits import BREATH
from engines.motion_layout import EXP
from kernels.arrays import F32, F64, I64
from pipeline.session.blink_cue import hashed_uniform
from pipeline.types import MOTION_FPS

BREATH_COLUMN: Final = EXP.start + 3 * BREATH[0] + BREATH[1]
"""Column of a motion vector."""
RATE_HZ: Final = 0.25
"""15 breaths a minute, as an adult at rest; a seed moves it by up to 10 %."""
HEIGHT: Final = 0.005
"""Half of what the chest rises by, in face widths: 1.5 mm on a face 150 mm wide."""
PULL: Final = 0.25
"""Share of the second harmonic: breathing in is quicker than breathing out."""
FORGET: Final = 0.9
"""What is left, after one frame, of the difference with which speech begins."""


def breath(seed: int, frames: I64) -> F64:
    """Lift of the chest, face widths, float64 (n,).

    Args:
        seed: The session's seed.
        frames: Frame indices at 25 frames/s; may be negative.
    """
    draws = hashed_uniform(seed, 300, np.array([0, 1]))
    turns = RATE_HZ * (0.9 + 0.2 * draws[0]) * frames / MOTION_FPS + draws[1]
    result: F64 = HEIGHT * (np.sin(2 * np.pi * turns) + PULL * np.sin(4 * np.pi * turns))
    return result


def breath_after(shown: float, seed: int, first_frame: int, n_frames: int) -> F32:
    """The lift of consecutive frames after one that the viewer saw, float32 (n_frames,).

    Args:
        shown: Lift in frame `first_frame - 1`.
        seed: The session's seed.
        first_frame: Index of the first frame.
        n_frames: Frames wanted.
    """
    wave = breath(seed, first_frame - 1 + np.arange(n_frames + 1, dtype=np.int64))
    left = (float(shown) - wave[0]) * FORGET ** np.arange(1, n_frames + 1)
    result: F32 = (wave[1:] + left).astype(np.float32)
    return result
