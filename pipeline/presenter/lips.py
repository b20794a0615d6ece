"""Closed lips: colour over the relief, fine vertical lines, the parting line and the wet highlight."""

from __future__ import annotations

import numpy as np

from kernels.arrays import F32
from pipeline.presenter.face_shape import LIP_BOTTOM_HALF, LIP_TOP_HALF, MOUTH_LINE_HALF, curve_height, whole
from pipeline.presenter.raster import Window, blur, bump, over, smooth_noise, smoothstep
from pipeline.presenter.skin import DEFAULT_SKIN, SKIN, Skin


def paint_lips(board: F32, rng: np.random.Generator, skin: Skin = DEFAULT_SKIN) -> None:
    """Paint the lips on `board` in place; expects the shaded skin below."""
    window = Window.around(-0.20, 0.63, 0.20, 0.84)
    view, (u, v) = board[window.slices], window.grid()
    line, top, bottom = whole(MOUTH_LINE_HALF), whole(LIP_TOP_HALF), whole(LIP_BOTTOM_HALF)
    area = window.polygon(np.concatenate([top, bottom[::-1]]), soft=1.9)
    height, top_v, bottom_v = curve_height(line, u), curve_height(top, u), curve_height(bottom, u)
    luma = view.mean(axis=2, keepdims=True)
    reference = np.float32(0.72) * (skin.base.mean() / SKIN.mean())  # luma of the lit skin
    deep = skin.lip_tone("9d504b")
    colour = skin.lip * (0.45 + 0.55 * luma / reference)
    upper = smoothstep(0.001, -0.002, v - height)
    over(colour, deep * (0.5 + 0.5 * luma / reference), 0.34 * upper)
    near_line = np.exp(-np.abs(v - height) / 0.0105)
    over(colour, skin.lip_tone("6f2f2f"), 0.60 * near_line)
    over(colour, deep, 0.30 * smoothstep(0.075, 0.150, np.abs(u)))
    lines = smooth_noise(rng, (1, window.w * 2), 1.5)[:, : window.w]
    drift = np.broadcast_to(lines, u.shape) * np.clip(1.0 - near_line, 0, 1)
    colour *= 1.0 + 0.020 * drift[..., None]
    over(view, colour, 0.86 * area)
    low = (v - height) / np.maximum(bottom_v - height, 1e-3)
    sheen = np.exp(-0.5 * ((low - 0.42) / 0.15) ** 2) * (v > height)
    sheen = sheen * (bump(u, v, -0.032, 0.75, 0.040, 0.05) + 0.45 * bump(u, v, 0.045, 0.75, 0.028, 0.05))
    over(view, skin.lip_tone("ffe3da"), 0.24 * blur(np.asarray(sheen * (1.0 + 0.25 * drift), np.float32), 1.2) * area)
    up = (height - v) / np.maximum(height - top_v, 1e-3)
    bow = np.exp(-0.5 * ((up - 1.06) / 0.16) ** 2) * (v < height) * bump(u, v, -0.008, 0.68, 0.040, 0.03)
    over(view, skin.lip_tone("ffe2cf"), 0.34 * blur(np.asarray(bow, np.float32), 1.2))
    t = np.linspace(-1.0, 1.0, len(line))
    thick = (1.25 + 1.0 * np.exp(-((t / 0.30) ** 2)) + 0.7 * np.exp(-(((np.abs(t) - 0.84) / 0.14) ** 2))) * (
        1.02 - t**6
    )
    over(view, skin.lip_tone("5c2726"), 0.66 * window.ribbon(line, thick * 2.5, soft=1.6))
    over(view, skin.lip_tone("471a1b"), 0.92 * window.ribbon(line, thick * 0.90, soft=0.6))
    for side in (-1.0, 1.0):
        over(view, skin.lip_tone("5e2c28"), 0.45 * bump(u, v, side * 0.1470, 0.7012, 0.0060, 0.0045))
    shadow = np.exp(-0.5 * ((v - bottom_v - 0.012) / 0.011) ** 2) * smoothstep(0.105, 0.02, np.abs(u))
    over(view, skin.lip_tone("8d5141"), 0.42 * np.asarray(shadow, np.float32))
