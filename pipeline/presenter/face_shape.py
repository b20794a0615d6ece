"""The presenter's head as a relief: depth towards the viewer over the face, and the outline that bounds it."""

from __future__ import annotations

import numpy as np

from kernels.arrays import F32, F64
from pipeline.presenter.geometry import outline, spline
from pipeline.presenter.raster import bump, smoothstep

FACE_HALF = [
    (0.0, -0.235),
    (0.15, -0.215),
    (0.285, -0.125),
    (0.352, 0.0),
    (0.380, 0.13),
    (0.390, 0.26),
    (0.388, 0.37),
    (0.378, 0.47),
    (0.362, 0.56),
    (0.338, 0.65),
    (0.301, 0.74),
    (0.252, 0.825),
    (0.193, 0.903),
    (0.130, 0.963),
    (0.066, 0.994),
    (0.0, 1.001),
]
"""Right half of the face outline (skull top to chin) in face coordinates."""

# Lip curves, corner to corner, left half mirrored from these (u >= 0). A closed, friendly mouth: corners a touch high.
MOUTH_LINE_HALF = [(0.0, 0.7165), (0.022, 0.7145), (0.050, 0.7122), (0.085, 0.7130), (0.118, 0.7085), (0.147, 0.7005)]
LIP_TOP_HALF = [
    (0.0, 0.6795),
    (0.012, 0.6766),
    (0.028, 0.6728),
    (0.050, 0.6770),
    (0.092, 0.6890),
    (0.124, 0.6965),
    (0.147, 0.7005),
]
LIP_BOTTOM_HALF = [(0.0, 0.7705), (0.035, 0.7694), (0.070, 0.7592), (0.104, 0.7370), (0.131, 0.7145), (0.147, 0.7005)]


def face_outline(n: int = 400) -> F64:
    """The face's outline, float64 (n, 2), closed, face coordinates."""
    return spline(outline(FACE_HALF), n, closed=True)


def whole(half: list[tuple[float, float]], n: int = 121) -> F64:
    """A symmetric curve from its half at u >= 0: float64 (n, 2), from the viewer's left corner to the right one."""
    left = [(-u, v) for u, v in reversed(half[1:])]
    return spline(left + half, n)


def half_width(v: F32) -> F32:
    """Half width of the face at height v, in face units; 0 outside."""
    ring = spline(FACE_HALF, 400)
    order = np.maximum.accumulate(ring[:, 1])
    return np.asarray(np.interp(v, order, ring[:, 0], left=0.0, right=0.0), dtype=np.float32)


def curve_height(curve: F64, u: F32) -> F32:
    """V of a single-valued curve at u, clamped at the ends."""
    return np.asarray(np.interp(u, curve[:, 0], curve[:, 1]), dtype=np.float32)


def _both(u: F32, v: F32, cu: float, cv: float, su: float, sv: float, turn_deg: float = 0.0) -> F32:
    """The same hill on both sides of the face."""
    return bump(u, v, cu, cv, su, sv, turn_deg) + bump(u, v, -cu, cv, su, sv, -turn_deg)


def _ovoid(u: F32, v: F32) -> F32:
    """The skull and jaw without features."""
    w = np.maximum(half_width(v), np.float32(1e-4))
    across = np.sqrt(np.maximum(1.0 - np.minimum(np.abs(u) / w, 1.0) ** 2.35, 0.0))
    below, above = np.maximum((v - 0.40) / 0.612, 0.0), np.maximum((0.40 - v) / 0.66, 0.0)
    down = np.sqrt(np.maximum(1.0 - np.minimum(below, 1.0) ** 2.7 - np.minimum(above, 1.0) ** 2.6, 0.0))
    return np.asarray(0.40 * across * down, dtype=np.float32)


def _nose(u: F32, v: F32) -> F32:
    knots = [0.24, 0.32, 0.38, 0.45, 0.495, 0.528, 0.552, 0.577, 0.598, 0.635]
    heights = [0.000, 0.010, 0.026, 0.048, 0.066, 0.080, 0.083, 0.056, 0.020, 0.0]
    widths = [0.050, 0.034, 0.031, 0.033, 0.036, 0.041, 0.043, 0.042, 0.036, 0.03]
    ridge, wide = np.interp(v, knots, heights), np.interp(v, knots, widths)
    nose = ridge * np.exp(-0.5 * np.abs(u / wide) ** 2.2)
    nose = nose + 0.020 * bump(u, v, 0.0, 0.545, 0.026, 0.024)
    nose = nose + 0.040 * _both(u, v, 0.058, 0.565, 0.022, 0.022, 20)
    nose = nose + 0.014 * bump(u, v, 0.0, 0.591, 0.014, 0.016)
    return np.asarray(nose - 0.012 * _both(u, v, 0.088, 0.578, 0.012, 0.028, 15), dtype=np.float32)


def _eye_region(u: F32, v: F32) -> F32:
    relief = -0.040 * _both(u, v, 0.168, 0.312, 0.085, 0.046)
    relief -= 0.022 * _both(u, v, 0.078, 0.322, 0.026, 0.040)
    relief += 0.034 * _both(u, v, 0.183, 0.340, 0.058, 0.036)
    relief += 0.012 * _both(u, v, 0.175, 0.232, 0.110, 0.026, 4)
    relief -= 0.0035 * _both(u, v, 0.165, 0.418, 0.070, 0.020, -8)
    return np.asarray(relief, dtype=np.float32)


def _lips(u: F32, v: F32) -> F32:
    line, top, bottom = (curve_height(whole(h), u) for h in (MOUTH_LINE_HALF, LIP_TOP_HALF, LIP_BOTTOM_HALF))
    inside = smoothstep(0.146, 0.10, np.abs(u))
    up = np.clip((line - v) / np.maximum(line - top, 1e-3), 0.0, 1.6)
    low = np.clip((v - line) / np.maximum(bottom - line, 1e-3), 0.0, 1.6)
    upper = np.where(v <= line, np.exp(-0.5 * ((up - 0.55) / 0.42) ** 2), 0.0)
    lower = np.where(v > line, np.exp(-0.5 * ((low - 0.50) / 0.40) ** 2), 0.0)
    return np.asarray(inside * (0.007 * upper + 0.011 * lower), dtype=np.float32)


def face_relief(u: F32, v: F32) -> F32:
    """Depth towards the viewer in face units at face coordinates (u, v), float32, same shape; 0 outside the outline."""
    z = _ovoid(u, v) + _nose(u, v) + _eye_region(u, v) + _lips(u, v)
    z += 0.020 * _both(u, v, 0.245, 0.465, 0.085, 0.060, -25)  # cheekbones
    z += 0.016 * _both(u, v, 0.185, 0.545, 0.070, 0.070)  # soft cheeks
    z += 0.038 * bump(u, v, 0.0, 0.700, 0.115, 0.080)  # muzzle
    z += 0.030 * bump(u, v, 0.0, 0.915, 0.075, 0.050)  # chin
    z -= 0.017 * bump(u, v, 0.0, 0.832, 0.085, 0.022)  # fold above the chin
    z -= 0.0045 * bump(u, v, 0.0, 0.640, 0.0125, 0.026)  # philtrum
    z += 0.0028 * _both(u, v, 0.0215, 0.643, 0.010, 0.026, 8)
    z -= 0.006 * _both(u, v, 0.152, 0.640, 0.016, 0.060, -28)  # from the nose to the mouth corner, barely there
    z -= 0.007 * _both(u, v, 0.160, 0.702, 0.016, 0.020)  # mouth corners
    z += 0.010 * bump(u, v, 0.0, 0.12, 0.16, 0.09)  # forehead
    return np.asarray(z, dtype=np.float32)
