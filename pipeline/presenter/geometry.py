"""Where the presenter's face sits on the drawing board, and the few curve helpers that every part uses.

Face coordinates (u, v): u = 0 on the face's axis, growing to the viewer's right; v = 0 at the forehead top (mesh 10) and
1 at the chin (mesh 152), growing down. One unit is the face height. The drawing board is 1080 x 1920 pixels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kernels.arrays import F32, F64

BOARD_W = 1080
BOARD_H = 1920
FACE_X = 540.0
"""Board x of u = 0."""
FACE_TOP = 425.0
"""Board y of v = 0."""
FACE_UNIT = 572.0
"""Board pixels per face unit."""

Points = Sequence[tuple[float, float]]


def to_board(uv: NDArray[np.floating]) -> F32:
    """Face coordinates (..., 2) -> board pixels (..., 2), float32."""
    return np.asarray(np.asarray(uv, dtype=np.float64) * FACE_UNIT + (FACE_X, FACE_TOP), dtype=np.float32)


def spline(points: Points, n: int, closed: bool = False) -> F64:
    """A smooth curve through `points`, sampled `n` times.

    Args:
        points: (k, 2) pairs, k >= 3.
        n: Samples along the curve.
        closed: Join the last point to the first.

    Returns:
        float64 (n, 2); a cubic spline over the square root of the chord length, which does not overshoot near kinks.
    """
    from scipy.interpolate import CubicSpline  # here: users of the API alone should not wait for scipy

    nodes = np.asarray(points, dtype=np.float64)
    if closed:
        nodes = np.vstack([nodes, nodes[:1]])
    chord = np.sqrt(np.linalg.norm(np.diff(nodes, axis=0), axis=1))
    knots = np.concatenate([[0.0], np.cumsum(chord)])
    curve = CubicSpline(knots, nodes, bc_type="periodic" if closed else "natural")
    return np.asarray(curve(np.linspace(0.0, knots[-1], n, endpoint=not closed)), dtype=np.float64)


def mirrored(points: Points) -> list[tuple[float, float]]:
    """The same points on the other side of the face."""
    return [(-u, v) for u, v in points]


def outline(right_half: Points) -> list[tuple[float, float]]:
    """A closed symmetric outline from its half at u >= 0, listed from top to bottom with both ends on the axis."""
    return [*right_half, *mirrored(list(reversed(right_half))[1:-1])]
