"""Ears, seen from the front, with a small pearl each."""

from __future__ import annotations

import numpy as np

from kernels.arrays import F32
from pipeline.presenter.face_shape import face_outline
from pipeline.presenter.geometry import spline
from pipeline.presenter.raster import Window, blur, bump, over, rgb, smoothstep
from pipeline.presenter.skin import DEFAULT_SKIN, Skin, shade

# At u > 0, face coordinates.
_OUTLINE = [
    (0.374, 0.352),
    (0.392, 0.330),
    (0.416, 0.327),
    (0.434, 0.348),
    (0.4385, 0.392),
    (0.4305, 0.445),
    (0.4200, 0.490),
    (0.4110, 0.535),
    (0.3970, 0.565),
    (0.3800, 0.566),
    (0.3660, 0.535),
    (0.362, 0.45),
]
_HELIX = [
    (0.386, 0.392),
    (0.392, 0.352),
    (0.410, 0.340),
    (0.4245, 0.358),
    (0.4285, 0.395),
    (0.4215, 0.445),
    (0.412, 0.490),
]
_ANTIHELIX = [(0.404, 0.375), (0.4105, 0.410), (0.408, 0.450), (0.401, 0.490), (0.392, 0.512)]
_CONCHA = [(0.386, 0.405), (0.398, 0.415), (0.4005, 0.450), (0.394, 0.485), (0.382, 0.500), (0.376, 0.455)]
_PEARL = (0.3885, 0.557)
_PEARL_RADIUS = 0.0145


def paint_ear(board: F32, side: float, skin: Skin = DEFAULT_SKIN, pearl: bool = True) -> None:
    """Paint one ear, with its pearl where it has one, on `board` in place; side -1 viewer's left, +1 viewer's right."""
    window = Window.around(*((0.33, 0.28, 0.50, 0.64) if side > 0 else (-0.50, 0.28, -0.33, 0.64)))
    u, v = window.grid()
    a = u * np.float32(side)
    flip = np.array([side, 1.0])
    beside = 1.0 - window.polygon(face_outline(), soft=1.6)
    mask = window.polygon(spline(_OUTLINE, 160, closed=True) * flip, soft=0.9) * beside
    hollow = window.polygon(spline(_CONCHA, 100, closed=True) * flip, soft=3.2)
    helix = window.ribbon(spline(_HELIX, 80) * flip, np.full(80, 8.5), soft=2.6)
    inner = window.ribbon(spline(_ANTIHELIX, 80) * flip, np.linspace(5.0, 8.0, 80), soft=2.6)
    groove = window.ribbon((spline(_HELIX[1:], 80) - (0.0105, 0.0)) * flip, np.full(80, 4.0), soft=2.0)
    relief = 0.030 * blur(mask, 8.0) + 0.010 * helix + 0.007 * inner - 0.012 * hollow - 0.005 * groove
    relief += 0.008 * bump(a, v, 0.388, 0.543, 0.013, 0.016) + 0.007 * bump(a, v, 0.381, 0.452, 0.005, 0.013)
    colour = np.broadcast_to(skin.base, (*u.shape, 3)).copy()
    over(colour, skin.tone("cf7a62"), np.clip(0.26 + 0.22 * hollow + 0.12 * groove, 0.0, 1.0))
    patch = shade(np.asarray(relief, np.float32), np.asarray(colour, np.float32), gloss=0.6, rim=0.25)
    dark = np.clip(0.46 * hollow + 0.26 * groove, 0.0, 1.0)
    patch *= (1.0 - dark)[..., None] ** np.array([0.7, 1.05, 1.15], np.float32)
    patch *= (1.0 - 0.34 * smoothstep(0.402, 0.368, a))[..., None]  # it turns away behind the cheek
    patch *= (1.0 - 0.30 * smoothstep(0.385, 0.330, v))[..., None]  # shadow of the hair above
    patch *= np.float32(0.97 if side < 0 else 0.86)
    view = board[window.slices]
    over(view, rgb("0c0705"), 0.40 * blur(mask, 5.0) * beside)
    over(view, patch, mask)
    if pearl:
        _pearl(view, u, v, side)


def _pearl(view: F32, u: F32, v: F32, side: float) -> None:
    du, dv = u - np.float32(side * _PEARL[0]), v - np.float32(_PEARL[1])
    over(view, rgb("5a3326"), 0.42 * np.exp(-0.5 * (np.hypot(du - 0.004, dv - 0.008) / 0.012) ** 2))
    ball = np.empty((*u.shape, 3), np.float32)
    light = np.clip(1.0 - np.hypot(du + 0.005, dv + 0.005) / 0.026, 0.0, 1.0)
    ball[:] = rgb("a3958c") + (rgb("fff7ee") - rgb("a3958c")) * light[..., None]
    over(ball, rgb("ffffff"), np.exp(-0.5 * (np.hypot(du + 0.005, dv + 0.006) / 0.0030) ** 2))
    over(view, ball, smoothstep(1.07, 0.92, np.hypot(du, dv) / np.float32(_PEARL_RADIUS)))
