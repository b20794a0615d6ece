"""A head scarf: cloth in folds around the face and over the shoulders."""

from __future__ import annotations

import cv2
import numpy as np

from kernels.arrays import F32
from pipeline.presenter.geometry import Points, outline, spline
from pipeline.presenter.raster import Window, blur, bump, over, rgb, smooth_noise, smoothstep
from pipeline.presenter.skin import Skin, shade
from training.gallery.short_hair import Paint

_WINDOW = Window.around(-0.80, -0.42, 0.80, 2.62)
_FACE: Points = [
    (0.0, -0.005),
    (0.15, 0.008),
    (0.270, 0.075),
    (0.338, 0.20),
    (0.362, 0.38),
    (0.352, 0.58),
    (0.305, 0.76),
    (0.225, 0.90),
    (0.120, 0.985),
    (0.0, 1.008),
]
_CLOTH: Points = [
    (0.0, -0.300),
    (0.20, -0.275),
    (0.375, -0.140),
    (0.452, 0.08),
    (0.470, 0.34),
    (0.462, 0.60),
    (0.435, 0.82),
    (0.392, 0.98),
    (0.345, 1.10),
    (0.330, 1.24),
    (0.36, 1.60),
    (0.30, 2.20),
    (0.16, 2.55),
    (0.0, 2.57),
]
_TUCKED = (1.17, 1.09)
"""Where the cloth goes below the collar of a jacket, face coordinates."""


def _ridge(x: F32) -> F32:
    """Rounded folds with narrow valleys, 0..1."""
    return np.asarray(np.abs(np.sin(np.pi * x)) ** 0.8, dtype=np.float32)


def _distance(mask: F32) -> F32:
    return np.asarray(cv2.distanceTransform((mask < 0.5).astype(np.uint8), cv2.DIST_L2, 5), dtype=np.float32)


def lining(colour: str) -> Paint:
    """What is seen between face and scarf: its dark inside."""

    def paint(board: F32, rng: np.random.Generator) -> None:
        inside = _WINDOW.polygon(spline(outline(_CLOTH), 400, closed=True), 1.0)
        _, v = _WINDOW.grid()
        over(
            board[_WINDOW.slices],
            rgb(colour) * np.float32(0.22),
            np.asarray(inside * smoothstep(1.1, 1.0, v), np.float32),
        )

    return paint


def scarf(colour: str, under: str, skin: Skin, tucked: bool) -> Paint:
    """A scarf over an under-scarf; `colour` and `under` are sRGB.

    Args:
        colour: Of the scarf.
        under: Of the band below it.
        skin: Of the face.
        tucked: Whether this is the part around the head, which ends at a jacket's collar; else all of it, before the jacket.
    """

    def paint(board: F32, rng: np.random.Generator) -> None:
        rng = np.random.default_rng(31)  # both parts are one cloth
        u, v = _WINDOW.grid()
        view = board[_WINDOW.slices]
        face = _WINDOW.polygon(spline(outline(_FACE), 300, closed=True), 0.8)
        band = _WINDOW.polygon(
            spline(outline([(a * 0.962, 0.5 + (b - 0.5) * 0.925) for a, b in _FACE]), 300, closed=True), 0.8
        )
        cloth = _WINDOW.polygon(spline(outline(_CLOTH), 400, closed=True), 1.0)
        shown = smoothstep(*_TUCKED, v) if tucked else np.ones_like(v)
        inside = _distance(face)
        outside = _distance(np.asarray(1.0 - cloth, np.float32))
        s = inside / np.maximum(inside + outside, 1.0)
        sway = (
            smooth_noise(rng, (_WINDOW.h, _WINDOW.w), 70.0) * 0.16
            + smooth_noise(rng, (_WINDOW.h, _WINDOW.w), 26.0) * 0.03
        )
        around = _ridge(s * 2.1 + 0.25 + sway + 0.35 * u * smoothstep(0.3, -0.2, v))
        drape = v - 0.55 * u - 0.50 * u * u
        across = _ridge(drape * 5.0 + 2.4 * sway + 0.1)
        small = _ridge(drape * 11.0 + 5.0 * sway)
        low = smoothstep(0.93, 1.12, v)
        round_head = 0.34 * np.sqrt(np.maximum(1.0 - (u / 0.50) ** 2, 0.0)) * smoothstep(1.35, 0.9, v)
        relief = round_head + (0.022 + 0.016 * s) * around * (1.0 - low) + low * (0.048 * across + 0.012 * small)
        relief = relief + 0.03 * smoothstep(0.0, 30.0, inside) - 0.10 * low * smoothstep(0.25, 0.75, np.abs(u))
        weave = 0.00022 * (np.sin(2 * np.pi * u / 0.0075) + np.sin(2 * np.pi * v / 0.0075))
        albedo = np.broadcast_to(rgb(colour), (*u.shape, 3)).copy()
        albedo *= (1.0 + 0.012 * smooth_noise(rng, (_WINDOW.h, _WINDOW.w), 0.9))[..., None]
        lit = 1.0 - 0.42 * bump(u, v, 0.04, 1.06, 0.20, 0.055) - 0.16 * smoothstep(0.05, 0.5, u)
        patch = shade(
            blur(np.asarray(relief + weave, np.float32), 2.2), albedo, np.asarray(lit, np.float32), gloss=0.10, rim=0.7
        )
        hollow = 1.0 - 0.34 * (1.0 - around) * (1.0 - low) - 0.30 * low * (1.0 - across) ** 2
        patch *= np.asarray(hollow, np.float32)[..., None] ** np.array([0.85, 1.05, 1.05], np.float32)
        hole = 1.0 - band
        over(
            view,
            skin.tone("5b2f22"),
            np.asarray(0.55 * blur(hole * face, 9.0) * band * smoothstep(0.95, 0.2, v), np.float32),
        )
        ring = np.empty((*u.shape, 3), np.float32)
        ring[:] = rgb(under) * (0.92 - 0.25 * smoothstep(-0.2, 0.35, u))[..., None]
        ring *= (1.0 + 0.02 * smooth_noise(rng, (_WINDOW.h, _WINDOW.w), 1.0))[..., None]
        ring *= (0.55 + 0.45 * smoothstep(0.0, 14.0, _distance(np.asarray(1.0 - face, np.float32))))[..., None]
        over(view, ring, np.asarray(face * hole * smoothstep(0.62, 0.40, v), np.float32))
        over(
            view,
            rgb("2a1512"),
            np.asarray(0.50 * blur(np.asarray(cloth * (1.0 - face), np.float32), 6.0) * face, np.float32),
        )
        over(view, patch, np.asarray(cloth * (1.0 - face) * shown, np.float32))

    return paint
