"""Neck and upper chest."""

from __future__ import annotations

import numpy as np

from kernels.arrays import F32
from pipeline.presenter.geometry import outline, spline
from pipeline.presenter.raster import Window, blur, bump, over, smooth_noise, smoothstep
from pipeline.presenter.skin import DEFAULT_SKIN, Skin, shade

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
        z += 0.012 * bump(u, v, side * 0.19, 1.318, 0.105, 0.016, side * -14)
    z -= 0.016 * bump(u, v, 0.0, 1.298, 0.026, 0.022)
    return np.asarray(z, dtype=np.float32)


def paint_neck(board: F32, rng: np.random.Generator, skin: Skin = DEFAULT_SKIN) -> None:
    """Paint neck and upper chest on `board` in place; clothes are painted over them."""
    window = Window.around(-0.66, 0.66, 0.66, 1.98)
    u, v = window.grid()
    colour = np.broadcast_to(skin.base, (*u.shape, 3)).copy()
    over(colour, skin.tone("d0907a"), 0.16 * smoothstep(1.0, 1.4, v))
    colour += (0.006 * smooth_noise(rng, (u.shape[0], u.shape[1]), 8.0))[..., None]
    jaw = np.sqrt(np.maximum(1.0 - (u / 0.33) ** 2, 0.0)).astype(np.float32)
    edge = 0.80 + 0.30 * jaw + 0.035 * smoothstep(-0.05, 0.2, u)
    under = smoothstep(0.055, -0.055, v - edge)
    lit = 1.0 - 0.86 * under
    lit *= 1.0 - 0.55 * smoothstep(0.10, 0.24, u + 0.04 * (v - 1.0)) * smoothstep(1.26, 1.12, v)
    relief = blur(_neck_relief(u, v), 2.0)
    patch = shade(
        relief, np.asarray(colour, np.float32), blur(np.asarray(lit, np.float32), 5.0), gloss=0.7 * skin.gloss
    )
    near = smoothstep(0.10, -0.06, v - edge)
    patch *= (1.0 - 0.36 * near)[..., None] ** np.array([0.75, 1.1, 1.15], np.float32)
    over(board[window.slices], patch, window.polygon(spline(outline(NECK_HALF), 300, closed=True), soft=1.2))
