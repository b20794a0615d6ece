"""What an expression does to decoded pictures: places of corners and brows from the eyes, and when a change is half there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kernels.arrays import F32, F64

RIGHT_EYE: Final = (33, 133)
LEFT_EYE: Final = (362, 263)
"""Corners of the eyes; their middle is the eye's centre, which neither lids nor gaze move."""
CORNERS: Final = (61, 291)
INNER_BROWS: Final = (55, 285)


@dataclass(frozen=True)
class FaceCurves:
    """Places in every frame of a film, float64 (n,), in distances of the eye centres; NaN where no face was found.

    Attributes:
        corner: Height of the mouth's corners, mean of both, up; from the eyes.
        width: Width of the mouth.
        inner_brow: Height of the inner brows over the eyes.
    """

    corner: F64
    width: F64
    inner_brow: F64


def face_curves(points: F32) -> FaceCurves:
    """Curves of landmarks (n, 468, 2) in pixels; the line between the eyes is level."""
    spots = points.astype(np.float64)
    right, left = spots[:, RIGHT_EYE].mean(axis=1), spots[:, LEFT_EYE].mean(axis=1)
    across = left - right
    distance = np.linalg.norm(across, axis=1)
    up = np.stack([across[:, 1], -across[:, 0]], axis=1) / distance[:, None]
    middle = (right + left) / 2

    def height(ids: tuple[int, ...]) -> F64:
        risen: F64 = ((spots[:, ids].mean(axis=1) - middle) * up).sum(axis=1) / distance
        return risen

    width = np.linalg.norm(spots[:, CORNERS[0]] - spots[:, CORNERS[1]], axis=1) / distance
    return FaceCurves(height(CORNERS), width, height(INNER_BROWS))


@dataclass(frozen=True)
class Shift:
    """How one place differs between two films of the same speech.

    Attributes:
        held: Mean difference while the expression holds.
        right_sign: Share of the held frames in which the difference has the sign of `held`.
        noise: Largest mean difference over 5 frames before the expression begins, absolute.
    """

    held: float
    right_sign: float
    noise: float


def shift(expressed: F64, neutral: F64, begins: int, holds: int) -> Shift:
    """Compare curves (n,) of two films; the expression begins at one frame and holds from another on."""
    difference = expressed - neutral
    held = difference[holds:][np.isfinite(difference[holds:])]
    before = difference[:begins][np.isfinite(difference[:begins])]
    calm = [abs(float(before[i : i + 5].mean())) for i in range(0, max(len(before) - 4, 1))]
    mean = float(held.mean())
    return Shift(mean, float((np.sign(held) == np.sign(mean)).mean()), max(calm, default=0.0))


def half_way(expressed: F64, neutral: F64, begins: int, holds: int) -> float:
    """Frame, between two, at which the difference first reaches half of what it holds."""
    difference = expressed - neutral
    goal = shift(expressed, neutral, begins, holds).held / 2
    share = difference / goal
    for frame in range(begins, holds):
        if share[frame] < 1 <= share[frame + 1]:
            return frame + float((1 - share[frame]) / (share[frame + 1] - share[frame]))
    return float(holds)
