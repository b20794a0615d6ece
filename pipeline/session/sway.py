"""Slow waves of a face that does nothing: a function of (seed, frame index) without state, sums of sines."""

from __future__ import annotations

from typing import Final

import numpy as np

from kernels.arrays import F64, I64
from pipeline.session.blink_cue import hashed_uniform
from pipeline.types import MOTION_FPS

ANGLES: Final = ("pitch", "yaw", "roll")
POSE: Final = (*ANGLES, "tx", "ty", "tz", "scale")
_WAVES: Final[dict[str, tuple[tuple[float, float], ...]]] = {
    "pitch": ((0.052, 0.45), (0.117, 0.28), (0.27, 0.16)),
    "yaw": ((0.043, 0.95), (0.089, 0.45), (0.171, 0.18)),
    "roll": ((0.037, 0.55), (0.097, 0.25), (0.19, 0.10)),
    "tx": ((0.041, 0.0045), (0.113, 0.0020)),
    "ty": ((0.061, 0.0020), (0.253, 0.0022)),
    "tz": (),
    "scale": ((0.058, 0.0020), (0.247, 0.0010)),
    "brow_raise": ((0.071, 0.030), (0.157, 0.020)),
    "smile": ((0.049, 0.030),),
}
"""Frequency in Hz and amplitude (degrees, face widths, factor or action) of the waves; the ones near 0.25 Hz are breathing."""

_OFFSETS: Final = {"brow_raise": 0.05, "smile": 0.08}


def sway(seed: int, frames: I64) -> dict[str, F64]:
    """Slow waves of head pose and expression.

    Args:
        seed: Seed of the session; it moves the phases and, by up to 12 %, the frequencies.
        frames: Frame indices at 25 frames/s.

    Returns:
        Name -> float64 curve: `POSE` (degrees, face widths, scale - 1) and the actions `brow_raise` and `smile`.
    """
    times = frames / MOTION_FPS
    curves: dict[str, F64] = {}
    for number, (name, waves) in enumerate(_WAVES.items()):
        curve = np.full(len(times), _OFFSETS.get(name, 0.0))
        for k, (frequency, amplitude) in enumerate(waves):
            draws = hashed_uniform(seed, 100 + number, np.array([2 * k, 2 * k + 1]))
            turns = frequency * (0.88 + 0.24 * draws[1])
            curve = curve + amplitude * np.sin(2 * np.pi * (turns * times + draws[0]))
        curves[name] = curve
    return curves
