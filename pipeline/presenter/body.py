"""Neck, ears and the small pearl earrings."""

from __future__ import annotations

import numpy as np

from pipeline.presenter.geometry import F32, outline, spline
from pipeline.presenter.raster import Window, blur, bump, over, rgb, smooth_noise, smoothstep
from pipeline.presenter.skin import SKIN, shade

NECK_HALF = [
    (0.0, 0.70),
    (0.20, 0.72),
    (0.222, 0.85),
    (0.214, 0.98),
    (0.216, 1.08),
    (0.250, 1.17),
    (0.330, 1.245),
    (0.46, 1.31),
    (0.60, 1.40),
    (0.62, 1.75),
    (0.0, 1.95),
]

EAR = [
    (0.372, 0.335),
    (0.398, 0.306),
    (0.428, 0.309),
    (0.4465, 0.345),
    (0.4435, 0.405),
    (0.4285, 0.465),
    (0.414, 0.520),
    (0.398, 0.568),
    (0.378, 0.580),
    (0.364, 0.550),
    (0.360, 0.45),
]


def _neck_relief(u: F32, v: F32) -> F32:
    ring = spline(NECK_HALF[1:8], 200)
    wide = np.interp(v, ring[:, 1], ring[:, 0]).astype(np.float32)
    column = 0.21 * np.sqrt(np.clip(1.0 - (np.abs(u) / (wide + 0.004)) ** 2.2, 0.0, 1.0))
    chest = 0.05 * np.exp(-0.5 * ((v - 1.5) / 0.18) ** 2) + 0.10 * np.sqrt(np.clip(1 - (np.abs(u) / 0.75) ** 2, 0, 1))
    z = column * smoothstep(1.30, 1.06, v) + chest * smoothstep(1.05, 1.35, v)
    for side in (-1.0, 1.0):
        t = np.clip((v - 0.95) / 0.34, 0.0, 1.0)
        cord = side * (0.165 - 0.125 * t)
        z += 0.010 * np.exp(-0.5 * ((u - cord) / 0.022) ** 2) * smoothstep(0.92, 1.10, v) * smoothstep(1.33, 1.25, v)
        z += 0.013 * bump(u, v, side * 0.17, 1.310 - 0.0, 0.115, 0.013, side * -9)
    z -= 0.016 * bump(u, v, 0.0, 1.298, 0.026, 0.022)
    return np.asarray(z, dtype=np.float32)


def paint_neck(board: F32, rng: np.random.Generator) -> None:
    """Paint neck and upper chest on `board` in place; clothes are painted over them."""
    window = Window.around(-0.66, 0.66, 0.66, 1.98)
    u, v = window.grid()
    colour = np.broadcast_to(SKIN, (*u.shape, 3)).copy()
    over(colour, rgb("d0907a"), 0.16 * smoothstep(1.0, 1.4, v))
    colour += (0.006 * smooth_noise(rng, *u.shape, 8.0))[..., None]
    jaw = np.sqrt(np.maximum(1.0 - (u / 0.33) ** 2, 0.0)).astype(np.float32)
    edge = 0.80 + 0.30 * jaw + 0.035 * smoothstep(-0.05, 0.2, u)
    under = smoothstep(0.055, -0.055, v - edge)
    lit = 1.0 - 0.80 * under
    lit *= 1.0 - 0.55 * smoothstep(0.10, 0.24, u + 0.04 * (v - 1.0)) * smoothstep(1.26, 1.12, v)
    relief = blur(_neck_relief(u, v), 2.0)
    patch = shade(relief, np.asarray(colour, np.float32), blur(np.asarray(lit, np.float32), 5.0), gloss=0.7)
    near = smoothstep(0.10, -0.06, v - edge)
    patch *= (1.0 - 0.26 * near)[..., None] ** np.array([0.75, 1.1, 1.15], np.float32)
    over(board[window.slices], patch, window.polygon(spline(outline(NECK_HALF), 300, closed=True), soft=1.2))


def paint_ear(board: F32, side: float) -> None:
    """Paint one ear with its pearl on `board` in place; side -1 viewer's left, +1 viewer's right."""
    window = Window.around(*((0.34, 0.28, 0.50, 0.66) if side > 0 else (-0.50, 0.28, -0.34, 0.66)))
    u, v = window.grid()
    a = u * np.float32(side)
    shape = spline(EAR, 160, closed=True) * (side, 1.0)
    mask = window.polygon(shape, soft=1.0)
    inner = window.polygon(
        (spline(EAR, 160, closed=True) - (0.402, 0.44)) * (0.62, 0.74) * (side, 1.0) + (0.400 * side, 0.425), soft=4.0
    )
    relief = 0.035 * blur(mask, 7.0) - 0.020 * inner + 0.012 * bump(a, v, 0.392, 0.440, 0.009, 0.05, -8)
    relief += 0.006 * bump(a, v, 0.384, 0.545, 0.016, 0.02)
    colour = np.broadcast_to(SKIN, (*u.shape, 3)).copy()
    over(colour, rgb("c9705c"), 0.30 + 0.30 * inner)
    patch = shade(np.asarray(relief, np.float32), np.asarray(colour, np.float32), gloss=0.5)
    patch *= (1.0 - 0.34 * inner)[..., None] ** np.array([0.8, 1.1, 1.2], np.float32)
    patch *= (1.0 - 0.40 * smoothstep(0.400, 0.366, a))[..., None]
    if side > 0:
        patch *= np.float32(0.86)
    view = board[window.slices]
    over(view, patch, mask)
    pearl_u, pearl_v = 0.386, 0.566
    r = np.hypot(a - pearl_u, v - pearl_v) / np.float32(0.0155)
    over(
        view,
        rgb("5a3326"),
        0.40 * np.exp(-0.5 * (np.hypot(u - side * pearl_u - 0.004, v - pearl_v - 0.008) / 0.014) ** 2),
    )
    ball = np.empty((*u.shape, 3), np.float32)
    light = np.clip(1.0 - np.hypot(u - side * pearl_u + 0.005, v - pearl_v + 0.005) / 0.026, 0.0, 1.0)
    ball[:] = rgb("a89a90") + (rgb("fff8f0") - rgb("a89a90")) * light[..., None]
    over(ball, rgb("ffffff"), np.exp(-0.5 * (np.hypot(u - side * pearl_u + 0.005, v - pearl_v + 0.006) / 0.0032) ** 2))
    over(view, ball, smoothstep(1.06, 0.92, r))
