"""The shape of the hair: guide curves from the parting over the skull, behind the ears and down to the shoulders."""

from __future__ import annotations

from typing import Final

import numpy as np

from kernels.arrays import F64
from pipeline.presenter.geometry import Points, spline

SAMPLES: Final = 56
"""Points along every strand."""
TEMPLE: Final = 0.46
"""Share of a strand's length at which it passes the ear: before it lies the crown, after it the fall."""

# From the front edge of the hair (first) to its outer contour (last), root to tip, in face coordinates.
_LEFT: Final[tuple[Points, ...]] = (
    [
        (0.088, 0.018),
        (-0.010, 0.038),
        (-0.137, 0.080),
        (-0.253, 0.146),
        (-0.338, 0.232),
        (-0.386, 0.328),
        (-0.402, 0.48),
        (-0.362, 0.68),
        (-0.268, 0.88),
        (-0.272, 1.05),
        (-0.318, 1.21),
        (-0.300, 1.37),
    ],
    [
        (0.092, -0.030),
        (-0.02, -0.036),
        (-0.165, 0.010),
        (-0.297, 0.095),
        (-0.382, 0.205),
        (-0.424, 0.335),
        (-0.445, 0.50),
        (-0.425, 0.69),
        (-0.365, 0.88),
        (-0.370, 1.05),
        (-0.432, 1.22),
        (-0.405, 1.41),
    ],
    [
        (0.090, -0.120),
        (-0.04, -0.150),
        (-0.218, -0.100),
        (-0.365, 0.012),
        (-0.445, 0.165),
        (-0.478, 0.330),
        (-0.505, 0.50),
        (-0.507, 0.69),
        (-0.472, 0.88),
        (-0.492, 1.05),
        (-0.555, 1.22),
        (-0.500, 1.40),
    ],
    [
        (0.060, -0.240),
        (-0.06, -0.272),
        (-0.262, -0.226),
        (-0.440, -0.064),
        (-0.520, 0.125),
        (-0.552, 0.320),
        (-0.582, 0.50),
        (-0.602, 0.69),
        (-0.580, 0.88),
        (-0.604, 1.04),
        (-0.648, 1.19),
        (-0.580, 1.34),
    ],
)
_RIGHT: Final[tuple[Points, ...]] = (
    [
        (0.088, 0.018),
        (0.138, 0.038),
        (0.224, 0.084),
        (0.303, 0.154),
        (0.360, 0.240),
        (0.393, 0.330),
        (0.406, 0.48),
        (0.366, 0.68),
        (0.272, 0.88),
        (0.272, 1.05),
        (0.322, 1.20),
        (0.308, 1.35),
    ],
    [
        (0.092, -0.030),
        (0.160, -0.028),
        (0.252, 0.022),
        (0.341, 0.100),
        (0.401, 0.210),
        (0.430, 0.340),
        (0.449, 0.50),
        (0.425, 0.69),
        (0.362, 0.88),
        (0.368, 1.05),
        (0.430, 1.21),
        (0.410, 1.39),
    ],
    [
        (0.090, -0.120),
        (0.180, -0.136),
        (0.303, -0.074),
        (0.405, 0.028),
        (0.460, 0.170),
        (0.484, 0.330),
        (0.508, 0.50),
        (0.506, 0.69),
        (0.466, 0.88),
        (0.488, 1.05),
        (0.552, 1.21),
        (0.508, 1.39),
    ],
    [
        (0.060, -0.240),
        (0.187, -0.255),
        (0.340, -0.188),
        (0.470, -0.044),
        (0.531, 0.135),
        (0.560, 0.320),
        (0.588, 0.50),
        (0.602, 0.69),
        (0.574, 0.88),
        (0.598, 1.04),
        (0.645, 1.19),
        (0.585, 1.33),
    ],
)


def guides(side: float) -> F64:
    """Guide curves of one side (-1 viewer's left, +1 viewer's right), front to outside: float64 (4, SAMPLES, 2)."""
    return np.stack([spline(points, SAMPLES) for points in (_LEFT if side < 0 else _RIGHT)])


def between(curves: F64, s: F64) -> F64:
    """Strands at positions `s` (n,): 0 on the first guide, 1 on the last, a little beyond allowed; (n, SAMPLES, 2)."""
    x = s * (len(curves) - 1)
    k = np.clip(x.astype(int), 0, len(curves) - 2)
    f = (x - k)[:, None, None]
    return np.asarray(curves[k] * (1 - f) + curves[k + 1] * f, dtype=np.float64)
