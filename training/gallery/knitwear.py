"""Clothes without lapels: knitted pullovers, shirts and ties, and a head scarf."""

from __future__ import annotations

import numpy as np

from kernels.arrays import F32
from pipeline.presenter.clothing import SHOULDERS_HALF, Shirt
from pipeline.presenter.geometry import Points, outline, spline
from pipeline.presenter.raster import Window, blur, bump, over, rgb, smooth_noise, smoothstep
from pipeline.presenter.skin import Skin, shade
from training.gallery.short_hair import Paint

BODY = Window.around(-1.0, 0.90, 1.0, 2.76)


def _folds(u: F32, v: F32) -> F32:
    """Relief of folds that fall from shoulders and arms, face units."""
    z = np.zeros_like(u)
    for cu, cv, su, sv, turn, deep in (
        (0.50, 1.78, 0.20, 0.026, 38, 0.020),
        (0.46, 2.02, 0.22, 0.028, 30, 0.022),
        (0.42, 2.30, 0.22, 0.030, 24, 0.020),
        (0.22, 1.62, 0.14, 0.022, 52, 0.012),
        (0.66, 1.62, 0.03, 0.20, 6, 0.016),
    ):
        z += deep * (bump(u, v, cu, cv, su, sv, turn) + bump(u, v, -cu, cv, su, sv, -turn))
    return np.asarray(z, dtype=np.float32)


def _body(u: F32, v: F32) -> F32:
    """The rounded chest with its arms, face units."""
    top = np.interp(np.abs(u), *np.array(spline(SHOULDERS_HALF[2:9], 120)).T).astype(np.float32)
    depth = np.clip((v - top) / 0.22, 0.0, 1.0)
    chest = 0.30 * np.sqrt(np.maximum(1.0 - (u / 0.98) ** 2, 0.0)) + 0.12 * np.sqrt(depth * (2.0 - depth))
    arm = np.exp(-0.5 * ((np.abs(u) - 0.64 - 0.04 * (v - 1.6)) / 0.022) ** 2) * smoothstep(1.62, 2.0, v)
    return np.asarray(chest - 0.05 * arm, dtype=np.float32)


def _rib(u: F32, v: F32, pitch: float) -> F32:
    return np.asarray(np.sin(2 * np.pi * u / pitch), np.float32)


def pullover(colour: str, collar: Points, height: float, rib: float = 0.017) -> Paint:
    """A knitted pullover.

    Args:
        colour: Of the wool.
        collar: The upper edge at u >= 0 from the axis outwards, face coordinates.
        height: Of the ribbed collar below that edge, face units.
        rib: Distance of two ribs, face units.
    """

    def paint(board: F32, rng: np.random.Generator) -> None:
        u, v = BODY.grid()
        view = board[BODY.slices]
        half = spline(collar, 60)
        reach = float(half[-1, 0])
        edge = np.interp(np.abs(u), half[:, 0], half[:, 1]).astype(np.float32)
        body = BODY.polygon(spline(outline(SHOULDERS_HALF), 400, closed=True), 1.2)
        tube = np.concatenate([half, [(reach + 0.012, half[-1, 1] + 0.08), (reach + 0.05, 1.235), (0.0, 1.8)]])
        tube_cover = BODY.polygon(np.concatenate([tube, (tube * (-1.0, 1.0))[::-1]]), 1.0)
        cut = np.where(np.abs(u) < reach, smoothstep(-0.002, 0.002, v - edge), 1.0)
        cover = np.asarray(np.maximum(body * cut, tube_cover * cut), np.float32)
        inside = (
            smoothstep(0.004, -0.004, v - edge - height) * smoothstep(reach + 0.035, reach + 0.025, np.abs(u)) * cover
        )
        knit = _rib(u + 0.02 * np.sin(v * 3.0), v, 0.0095) * _rib(v + 0.5 * np.abs(u % 0.0095 - 0.00475), u, 0.0125)
        noise = smooth_noise(rng, (BODY.h, BODY.w), 26.0)
        relief = blur(_body(u, v) + 0.55 * _folds(u, v), 3.0) + 0.004 * noise + 0.00050 * knit
        if collar[0][1] < 1.15:  # a roll neck stands away from the throat
            relief = relief + 0.08 * blur(np.asarray(inside, np.float32), 6.0) * np.sqrt(
                np.clip(1.0 - (u / (reach + 0.03)) ** 2, 0.0, 1.0)
            )
        relief = relief + 0.010 * blur(np.asarray(inside, np.float32), 5.0) + 0.0014 * inside * _rib(u, v, rib)
        cloth = np.broadcast_to(rgb(colour), (*u.shape, 3)).copy()
        cloth *= (1.0 + 0.020 * smooth_noise(rng, (BODY.h, BODY.w), 0.9))[..., None]
        lit = (
            1.0 - 0.50 * smoothstep(1.36, 1.14, v) * smoothstep(0.30, 0.05, np.abs(u)) - 0.16 * smoothstep(0.1, 0.9, u)
        )
        patch = shade(
            blur(np.asarray(relief, np.float32), 0.8), cloth, np.asarray(lit, np.float32), gloss=0.05, rim=0.15
        )
        seam = np.exp(-0.5 * ((v - edge - height) / 0.007) ** 2) * (np.abs(u) < reach + 0.02)
        patch *= (1.0 - 0.30 * seam)[..., None]
        over(
            view,
            rgb("1a0f0c"),
            np.asarray(0.50 * blur(cover, 8.0) * (1.0 - cover) * smoothstep(0.36, 0.26, np.abs(u)), np.float32),
        )
        over(view, patch, np.asarray(cover, np.float32))

    return paint


def shirt(colour: str, skin: Skin, tie: str = "") -> Shirt:
    """The front of a shirt below a blazer; closed with a tie, else open at the neck."""

    def paint(view: F32, window: Window, rng: np.random.Generator) -> None:
        u, v = window.grid()
        cloth = np.empty((*u.shape, 3), np.float32)
        shadow = 1.0 - 0.34 * smoothstep(0.10, 0.27, np.abs(u) - 0.02 * (v - 1.5)) - 0.10 * smoothstep(-0.1, 0.3, u)
        cloth[:] = rgb(colour) * (shadow + 0.03 * smooth_noise(rng, (window.h, window.w), 30.0))[..., None]
        for u0, tilt in ((-0.15, 0.10), (0.13, -0.10), (0.19, -0.05)):
            along = (u - u0 - tilt * (v - 1.6)) / np.float32(0.016)
            fold = np.exp(-0.5 * along**2) - np.exp(-0.5 * (along - 1.6) ** 2)
            cloth -= (0.035 * fold * smoothstep(1.4, 1.7, v))[..., None]
        throat = 1.262 if tie else 1.50
        front = np.array(
            [(0.0, throat), (0.11, 1.215), (0.195, 1.135), (0.232, 1.13), (0.25, 1.25), (0.42, 1.5), (0.42, 2.6)]
        )
        ring = np.concatenate([front, (front * (-1.0, 1.0))[::-1]])
        over(view, skin.tone("4b2a20"), 0.45 * window.polygon(ring - (0.0, 0.012), soft=5.0) * smoothstep(1.13, 1.2, v))
        over(view, cloth, window.polygon(ring, soft=0.8))
        if tie:
            _tie(view, window, tie, rng)
            return
        over(
            view,
            rgb(colour) * np.float32(0.55),
            0.7 * window.line(np.array([(0.0, 1.50), (0.006, 2.5)]), 1.8, soft=0.8),
        )
        for cv in (1.60, 1.84, 2.08):
            over(view, rgb("20242a"), 0.30 * bump(u, v, 0.014, cv + 0.004, 0.010, 0.010))
            over(
                view,
                np.minimum(rgb(colour) * np.float32(1.05), 1.0),
                smoothstep(0.40, 0.55, bump(u, v, 0.012, cv, 0.009, 0.009)),
            )
            over(view, rgb("50555c"), 0.7 * bump(u, v, 0.012, cv, 0.003, 0.003))

    return paint


def collar(colour: str, closed: bool) -> Paint:
    """The collar of a shirt, which lies on the blazer's lapels where it is open."""
    leaf: Points = (
        [(0.192, 1.030), (0.226, 1.060), (0.236, 1.150), (0.166, 1.392), (0.010, 1.262), (0.110, 1.190)]
        if closed
        else [(0.192, 1.030), (0.232, 1.060), (0.290, 1.205), (0.225, 1.470), (0.070, 1.400), (0.135, 1.220)]
    )

    def paint(board: F32, rng: np.random.Generator) -> None:
        u, v = BODY.grid()
        view = board[BODY.slices]
        weave = 1.0 + 0.012 * smooth_noise(rng, (BODY.h, BODY.w), 0.9)
        for side in (-1.0, 1.0):
            ring = np.array(leaf) * (side, 1.0)
            mask = BODY.polygon(ring, soft=0.9)
            over(
                view,
                rgb("101318"),
                0.46 * BODY.polygon(ring + (0.004 * side, 0.016), soft=6.0) * smoothstep(1.10, 1.2, v),
            )
            light = (1.02 if side < 0 else 0.90) - 0.30 * smoothstep(1.20, 1.03, v)
            roll = np.clip(blur(mask, 5.0), 0.0, 1.0)
            part = (rgb(colour) * (light * weave * (0.86 + 0.14 * roll))[..., None]).astype(np.float32)
            over(view, part, mask)
            over(
                view,
                rgb(colour) * np.float32(0.70),
                0.55 * BODY.line(ring[2:5] * (0.985, 1.0) - (0.0, 0.013), 1.3, soft=0.7),
            )

    return paint


def _tie(view: F32, window: Window, colour: str, rng: np.random.Generator) -> None:
    u, v = window.grid()
    knot = np.array([(-0.062, 1.262), (0.062, 1.262), (0.042, 1.385), (-0.042, 1.385)])
    blade = np.array([(-0.040, 1.380), (0.040, 1.380), (0.105, 2.6), (-0.105, 2.6)])
    over(view, rgb("101015"), 0.50 * window.polygon(blade + (0.012, 0.010), soft=6.0))
    silk = np.empty((*u.shape, 3), np.float32)
    wide = 0.04 + 0.053 * np.clip((v - 1.38) / 1.2, 0, 1)
    across = np.clip(u / wide, -1.0, 1.0)
    light = 0.70 + 0.42 * np.exp(-0.5 * ((across + 0.35) / 0.42) ** 2) - 0.18 * across
    stripes = smoothstep(0.25, 0.45, np.abs(((v * 0.8 + u * 0.9) / 0.085) % 1.0 - 0.5))
    silk[:] = rgb(colour) * light[..., None]
    silk += (0.10 * (1.0 - stripes) * light)[..., None] * rgb("e8d9b0")
    silk *= (1.0 + 0.03 * smooth_noise(rng, (window.h, window.w), 0.8))[..., None]
    over(view, silk, window.polygon(blade, soft=0.8))
    over(view, rgb("08080c"), 0.6 * bump(u, v, 0.0, 1.394, 0.040, 0.010))
    over(view, silk * np.float32(1.06), window.polygon(knot, soft=0.9))
    over(view, rgb("0a0a0e"), 0.35 * window.line(np.array([(0.035, 1.268), (-0.006, 1.38)]), 2.0, soft=1.5))
