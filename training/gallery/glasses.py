"""Glasses: a frame with its own light, its shadow on the face, and a room that is faintly mirrored in the lenses."""

from __future__ import annotations

import numpy as np

from kernels.arrays import F32, F64
from pipeline.presenter.geometry import spline
from pipeline.presenter.raster import Window, blur, over, rgb, smoothstep
from pipeline.presenter.skin import Skin
from training.gallery.short_hair import Paint

_WINDOW = Window.around(-0.46, 0.14, 0.46, 0.60)


def _rim(side: float, half: tuple[float, float], power: float, n: int = 200) -> F64:
    t = np.linspace(0.0, 2 * np.pi, n, endpoint=False)
    c, s = np.cos(t), np.sin(t)
    u = np.sign(c) * np.abs(c) ** (2 / power) * half[0]
    v = np.sign(s) * np.abs(s) ** (2 / power) * half[1]
    u = u * (1.0 - 0.10 * np.clip(v / half[1], 0.0, 1.0))  # narrower towards the cheek
    return np.stack([side * (0.181 + u), 0.348 + v], axis=1)


def glasses(skin: Skin, colour: str, half: tuple[float, float], power: float, width: float) -> Paint:
    """A pair of glasses.

    Args:
        skin: Below it.
        colour: Of the frame.
        half: Half axes of a lens, face units.
        power: 2 for an ellipse, more for a rounder rectangle.
        width: Of the frame, board pixels.
    """

    def paint(board: F32, rng: np.random.Generator) -> None:
        view = board[_WINDOW.slices]
        u, v = _WINDOW.grid()
        frame = np.zeros_like(u)
        bridge = spline(
            [(-0.181 + half[0] * 0.97, 0.335), (-0.03, 0.312), (0.03, 0.312), (0.181 - half[0] * 0.97, 0.335)], 60
        )
        frame = np.maximum(frame, _WINDOW.line(bridge, width * 0.9, 0.5))
        lenses = np.zeros_like(u)
        for side in (-1.0, 1.0):
            ring = _rim(side, half, power)
            lenses = np.maximum(lenses, _WINDOW.polygon(ring, 0.6))
            closed = np.concatenate([ring, ring[:2]])
            frame = np.maximum(frame, _WINDOW.line(closed, width, 0.5))
            arm = np.array([(side * (0.181 + half[0]), 0.325), (side * 0.365, 0.322), (side * 0.388, 0.326)])
            frame = np.maximum(frame, _WINDOW.line(arm, width * 0.9, 0.5))
        down = np.roll(np.roll(frame, 9, axis=0), 4, axis=1)
        over(view, skin.tone("5b2f22"), np.asarray(0.42 * blur(down, 5.0) * (1.0 - 0.35 * lenses), np.float32))
        glare = np.zeros_like(u)
        for side in (-1.0, 1.0):
            a = (u - side * 0.181) / half[0] + 0.75 * (v - 0.348) / half[1]
            glare += smoothstep(0.10, 0.0, np.abs(a + 0.86) - 0.16) + 0.6 * smoothstep(
                0.06, 0.0, np.abs(a + 0.50) - 0.03
            )
        top = smoothstep(0.348 - 0.1 * half[1], 0.348 - half[1], v)
        over(view, rgb("dcebff"), np.asarray(lenses * (0.05 + 0.10 * top + 0.16 * glare), np.float32))
        metal = np.empty((*u.shape, 3), np.float32)
        metal[:] = rgb(colour)
        bright = blur(frame, 1.0)
        slope = np.roll(bright, 2, axis=0) - np.roll(bright, -2, axis=0)
        metal += np.clip(-slope, 0.0, 1.0)[..., None] * 0.55 * (0.5 + 0.5 * smoothstep(0.3, -0.3, u))[..., None]
        metal *= (1.0 - 0.45 * np.clip(slope, 0.0, 1.0))[..., None]
        over(view, metal, frame)
        del rng

    return paint
