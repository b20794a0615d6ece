"""The face itself: skin colour over the relief, blush, nose and the shadows that features throw."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernels.arrays import F32
from pipeline.presenter.face_shape import face_outline, face_relief
from pipeline.presenter.geometry import spline
from pipeline.presenter.raster import Window, blur, bump, over, smooth_noise, smoothstep
from pipeline.presenter.skin import DEFAULT_SKIN, Skin, shade

_WING = [(0.081, 0.541), (0.0902, 0.559), (0.0902, 0.579), (0.079, 0.593), (0.062, 0.596)]
"""The crease around the wing of the nose, u > 0."""

Carve = Callable[[F32, F32], F32]
Tint = Callable[[F32, F32, F32], None]

FACE_WINDOW = Window.around(-0.52, -0.30, 0.52, 1.06)


def _albedo(u: F32, v: F32, rng: np.random.Generator, skin: Skin) -> F32:
    colour = np.broadcast_to(skin.base, (*u.shape, 3)).copy()
    warm = 0.30 * (bump(u, v, -0.215, 0.53, 0.090, 0.070, -20) + bump(u, v, 0.215, 0.53, 0.090, 0.070, 20))
    warm += 0.20 * bump(u, v, 0.0, 0.555, 0.05, 0.045) + 0.10 * bump(u, v, 0.0, 0.92, 0.10, 0.06)
    warm += 0.10 * (bump(u, v, -0.17, 0.30, 0.09, 0.03) + bump(u, v, 0.17, 0.30, 0.09, 0.03))
    warm += 0.10 * (bump(u, v, -0.085, 0.585, 0.03, 0.03) + bump(u, v, 0.085, 0.585, 0.03, 0.03))
    over(colour, skin.blush, warm)
    cool = bump(u, v, -0.16, 0.398, 0.065, 0.018, -8) + bump(u, v, 0.16, 0.398, 0.065, 0.018, 8)
    over(colour, skin.tone("b98a83"), 0.16 * cool)
    over(colour, skin.tone("c99a80"), 0.10 * smoothstep(0.84, 1.0, v))
    mottle = (
        smooth_noise(rng, (u.shape[0], u.shape[1]), 9.0) * 0.006
        + smooth_noise(rng, (u.shape[0], u.shape[1]), 1.1) * 0.006
    )
    colour += mottle[..., None] * np.array([0.6, 1.0, 1.0], dtype=np.float32)
    return np.asarray(np.clip(colour, 0.0, 1.0), dtype=np.float32)


def _cast_shadow(u: F32, v: F32) -> F32:
    """Where the key light is blocked by the nose: a soft wedge on the viewer's right of it and below."""
    wedge = bump(u, v, 0.036, 0.611, 0.040, 0.016, 12) + 0.55 * bump(u, v, 0.082, 0.558, 0.016, 0.040, -12)
    socket = bump(u, v, 0.088, 0.315, 0.020, 0.035) * 0.5
    return np.asarray(1.0 - 0.42 * np.clip(wedge + socket, 0.0, 1.0), dtype=np.float32)


def _nostrils(canvas: F32, u: F32, v: F32, skin: Skin) -> None:
    for side in (-1.0, 1.0):
        hole = bump(u, v, side * 0.0335, 0.5855, 0.0150, 0.0058, side * 16) + 0.6 * bump(
            u, v, side * 0.0450, 0.5815, 0.008, 0.006
        )
        over(canvas, skin.tone("4a2019"), 0.80 * smoothstep(0.40, 1.0, hole))
        over(canvas, skin.tone("8a4a38"), 0.40 * np.minimum(hole, 1.0))
        wing = spline([(side * u_, v_) for u_, v_ in _WING], 60)
        over(canvas, skin.tone("8e4f3c"), 0.40 * FACE_WINDOW.ribbon(wing, np.linspace(2.0, 6.0, 60), soft=3.2))
    over(
        canvas,
        skin.tone("fff0e2"),
        0.20 * bump(u, v, -0.011, 0.541, 0.013, 0.011) + 0.10 * bump(u, v, -0.010, 0.45, 0.008, 0.05),
    )
    over(canvas, skin.tone("9c5b48"), 0.30 * bump(u, v, 0.0, 0.601, 0.028, 0.006))


def paint_face(
    board: F32,
    rng: np.random.Generator,
    skin: Skin = DEFAULT_SKIN,
    carve: Carve | None = None,
    tint: Tint | None = None,
    rim: float = 1.0,
) -> None:
    """Paint the bare face (no eyes, brows, lips, hair) on `board` (1920, 1080, 3), sRGB 0..1, in place.

    Args:
        board: The drawing board.
        rng: Where chance comes from.
        skin: Its colours.
        carve: Relief to add, in face units, from face coordinates (h, w): lines, folds, bags.
        tint: Called with the colour of the bare skin (h, w, 3) and face coordinates; paints into it: freckles, a beard's shadow.
        rim: Strength of the light from behind on the cheek; less where no hair frames it.
    """
    u, v = FACE_WINDOW.grid()
    relief = blur(face_relief(u, v), 1.5)
    if carve is not None:
        relief = relief + carve(u, v)
    albedo = _albedo(u, v, rng, skin)
    if tint is not None:
        tint(albedo, u, v)
    patch = shade(relief, albedo, blur(_cast_shadow(u, v), 3.0), gloss=skin.gloss, rim=rim * smoothstep(0.25, 0.355, u))
    _nostrils(patch, u, v, skin)
    cover = FACE_WINDOW.polygon(face_outline(), soft=1.2) * smoothstep(-0.14, -0.06, v)  # the hair covers the skull
    over(board[FACE_WINDOW.slices], patch, cover)
