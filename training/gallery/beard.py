"""Beards: strands over jaw, chin and lip, which leave the lips free."""

from __future__ import annotations

import numpy as np

from kernels.arrays import F32
from pipeline.presenter.face_shape import LIP_BOTTOM_HALF, LIP_TOP_HALF, whole
from pipeline.presenter.geometry import Points, spline
from pipeline.presenter.raster import Window, blur, bump, over, smooth_noise, smoothstep
from pipeline.presenter.skin import Skin
from training.gallery.short_hair import Paint
from training.gallery.strands import Coat, Dome, paint_strands

JAW = Window.around(-0.50, 0.30, 0.50, 1.22)
_OUTER: Points = [
    (0.374, 0.36),
    (0.380, 0.48),
    (0.366, 0.60),
    (0.334, 0.73),
    (0.276, 0.86),
    (0.190, 0.965),
    (0.095, 1.03),
    (0.0, 1.045),
]
_INNER: Points = [
    (0.350, 0.36),
    (0.338, 0.48),
    (0.312, 0.575),
    (0.268, 0.645),
    (0.222, 0.672),
    (0.188, 0.668),
    (0.150, 0.640),
    (0.095, 0.612),
    (0.040, 0.622),
    (0.0, 0.630),
]


def _mask(full: float, wide: float) -> F32:
    """Where the beard grows; `full` moves its lower edge down, face units, `wide` its edge at the cheeks out."""
    outer = [(u * wide, v + full * max(0.0, v - 0.6) / 0.45) for u, v in _OUTER]
    right = np.concatenate([spline(outer, 160), spline(list(reversed(_INNER)), 160)])
    left = right * (-1.0, 1.0)
    both = np.maximum(JAW.polygon(right, 1.0), JAW.polygon(left, 1.0))
    lips = np.concatenate([whole(LIP_TOP_HALF), whole(LIP_BOTTOM_HALF)[::-1]])
    middle = lips.mean(axis=0)
    free = JAW.polygon((lips - middle) * (1.02, 1.10) + middle, 1.5)
    u, v = JAW.grid()
    sparse = bump(u, v, 0.085, 0.800, 0.030, 0.018) + bump(u, v, -0.085, 0.800, 0.030, 0.018)
    philtrum = bump(u, v, 0.0, 0.628, 0.012, 0.020)
    return np.asarray(
        both * (1.0 - free) * np.clip(1.0 - (0.40 if full <= 0 else 0.0) * sparse - 0.5 * philtrum, 0.0, 1.0),
        np.float32,
    )


def beard(coat: Coat, skin: Skin, full: float, ground: float, wide: float = 1.0) -> Paint:
    """A beard.

    Args:
        coat: Its hair.
        skin: Below it.
        full: How far it reaches below the chin, face units.
        ground: How dark the skin is between its hairs, 0..1.
        wide: Its width at the cheeks; 1 ends where the face ends.
    """

    def flow(u: F32, v: F32) -> tuple[F32, F32]:
        side = np.sign(u)
        lip = np.exp(-0.5 * (((v - 0.655) / 0.030) ** 2)) * smoothstep(0.22, 0.12, np.abs(u))
        du = side * (0.95 * lip + 0.10 * (1.0 - lip)) - 0.9 * u * smoothstep(0.75, 1.0, v)
        dv = 0.55 * lip + 1.0 * (1.0 - lip)
        return np.asarray(du, np.float32), np.asarray(dv, np.float32)

    def paint(board: F32, rng: np.random.Generator) -> None:
        mask = _mask(full, wide)
        u, v = JAW.grid()
        noise = smooth_noise(rng, (JAW.h, JAW.w), 9.0)
        edge = np.asarray(smoothstep(0.25, 0.85, blur(mask, 7.0) + 0.10 * noise) * (mask > 0.02), np.float32)
        view = board[JAW.slices]
        low = smoothstep(0.98, 1.03, v)
        over(
            view,
            skin.tone("4a2a20"),
            np.asarray(max(0.0, 0.5 * full / 0.1) * blur(np.roll(mask, 16, axis=0), 9.0) * low, np.float32),
        )
        over(view, coat.ramp[0] * 0.5 + coat.ramp[1] * 0.5, np.asarray(ground * edge, np.float32))
        shade = np.asarray(1.0 - 0.35 * smoothstep(0.85, 1.08, v) - 0.25 * smoothstep(0.05, 0.40, u), np.float32)
        shade = shade - 0.28 * np.exp(-0.5 * ((v - 0.795) / 0.014) ** 2) * smoothstep(0.10, 0.04, np.abs(u))
        paint_strands(board, JAW, edge, flow, coat, rng, Dome((0.0, 0.55), (0.42, 0.52)), np.asarray(shade, np.float32))

    return paint
