"""Cuts that end above the shoulders, and hair that curls: masks and directions for the strands."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kernels.arrays import F32
from pipeline.presenter.geometry import Points, outline, spline
from pipeline.presenter.raster import Window, blur, over, rgb, smooth_noise, smoothstep
from pipeline.presenter.skin import Skin
from training.gallery.strands import Coat, Dome, Flow, paint_strands

Paint = Callable[[F32, np.random.Generator], None]
"""Paints a layer on the board (1920, 1080, 3), in place."""

HEAD = Window.around(-0.76, -0.62, 0.76, 1.40)


def ramp(*codes: str) -> F32:
    """Four colours from the darkest to the brightest, float32 (4, 3)."""
    return np.stack([rgb(code) for code in codes])


def _area(outer: Points, inner: Points, soft: float, lean: float = 0.0) -> F32:
    """Between an outer and an inner contour, each the half at u >= 0, from the axis outwards."""
    right = np.concatenate([spline(outer, 120), spline(list(reversed(inner)), 120)])
    left = (right * (-1.0, 1.0))[::-1]
    left[:, 1] -= lean * np.exp(-0.5 * ((left[:, 0] + 0.20) / 0.14) ** 2) * (left[:, 1] < -0.12)
    return HEAD.polygon(np.concatenate([right, left]), soft)


def _under(board: F32, mask: F32, colour: F32, skin: Skin, drop: float = 0.018) -> None:
    """The shadow of the hair on the skin, and the dark ground that strands lie on."""
    view = board[HEAD.slices]
    shift = round(drop * 572)
    low = np.roll(mask, shift, axis=0)
    over(view, skin.tone("7a4632"), 0.38 * blur(low, 11.0))
    over(view, skin.tone("4a281d"), 0.40 * blur(low, 4.0))
    over(view, colour, np.asarray(blur(mask, 1.6), np.float32))


def cropped(coat: Coat, skin: Skin, outer: Points, hairline: Points, part: float, lift: float) -> Paint:
    """Short hair that is combed from a parting; short at the sides.

    Args:
        coat: Of the hair on top; at the sides it is half as long.
        skin: Of the face below.
        outer: The contour at u >= 0, from the axis to the sideburn's outer edge.
        hairline: The edge towards the face, from the axis to the sideburn's inner edge.
        part: Where the parting lies, face coordinates; hair on the viewer's left of it goes left.
        lift: How far hair at the front stands up.
    """

    def flow(u: F32, v: F32) -> tuple[F32, F32]:
        side = np.where(u < part, -1.0, 1.0)
        down = smoothstep(0.22, 0.37, np.abs(u) + 0.18 * np.clip(v + 0.05, -0.3, 0.4))
        front = smoothstep(-0.16, 0.04, v)
        du = side * (0.95 - 0.25 * front) * (1.0 - down) + 0.10 * side * down
        dv = (-0.25 + 0.35 * np.abs(u) / 0.3 - lift * front) * (1.0 - down) + down
        return np.asarray(du, np.float32), np.asarray(dv, np.float32)

    def paint(board: F32, rng: np.random.Generator) -> None:
        mask = _area(outer, hairline, 1.5, 0.03)
        noise = smooth_noise(rng, (HEAD.h, HEAD.w), 5.0)
        u, v = HEAD.grid()
        sides = smoothstep(0.22, 0.38, np.abs(u)) * smoothstep(-0.10, 0.14, v)
        ground = mask * (1.0 - 0.55 * smoothstep(0.20, 0.36, v))
        _under(board, np.asarray(ground, np.float32), coat.ramp[0] * 0.55 + coat.ramp[1] * 0.45, skin)
        shade = np.asarray(1.0 - 0.30 * smoothstep(0.0, 0.35, v) - 0.20 * smoothstep(0.1, 0.5, u), np.float32)
        top = np.asarray(mask * (1.0 - sides) * (0.8 + 0.2 * noise.clip(-1, 1)), np.float32)
        short = Coat(
            **{**coat.__dict__, "length": coat.length * 0.42, "count": coat.count // 2, "shine": coat.shine * 0.4}
        )
        paint_strands(board, HEAD, np.asarray(mask * sides, np.float32), flow, short, rng, shade=shade)
        paint_strands(board, HEAD, top, flow, coat, rng, shade=shade)

    return paint


def curls(coat: Coat, skin: Skin, outer: Points, hairline: Points) -> Paint:
    """A round head of tight curls."""

    def flow(u: F32, v: F32) -> tuple[F32, F32]:
        return u, np.asarray(v - 0.25, np.float32)

    dome = Dome((0.0, 0.06), (0.60, 0.56))

    def paint(board: F32, rng: np.random.Generator) -> None:
        mask = _area(outer, hairline, 1.0)
        noise = smooth_noise(rng, (HEAD.h, HEAD.w), 12.0)
        ragged = smoothstep(0.30, 0.70, blur(mask, 9.0) + 0.10 * noise) * (blur(mask, 9.0) > 0.12)
        _under(board, np.asarray(np.minimum(blur(mask, 5.0), ragged), np.float32), coat.ramp[0], skin, 0.022)
        lumps = smooth_noise(rng, (HEAD.h, HEAD.w), 17.0)
        shade = np.asarray(np.clip(1.0 + 0.13 * lumps, 0.55, 1.4), np.float32)
        grow = np.asarray(ragged * np.clip(0.75 + 0.35 * lumps, 0.15, 1.0), np.float32)
        paint_strands(board, HEAD, grow, flow, coat, rng, dome, shade, np.asarray(ragged, np.float32))

    return paint


def falling(
    coat: Coat,
    skin: Skin,
    area: F32,
    crown: tuple[float, float],
    inwards: float,
    wave: float = 0.0,
    shadow: float = 0.016,
) -> Paint:
    """Longer hair that falls from a point on the crown over the head and then straight down.

    Args:
        coat: Of the hair.
        skin: Of the face below.
        area: Where it lies, share of every pixel of `HEAD`.
        crown: Where it comes from, face coordinates.
        inwards: How far the tips turn towards the face.
        wave: How far it sways while it falls.
        shadow: How far below it its shadow lies, face units.
    """
    along, near_edge = _contour(area)

    def flow(u: F32, v: F32) -> tuple[F32, F32]:
        x, y = u - crown[0], v - crown[1]
        fall = smoothstep(0.02, 0.42, v)
        reach = np.maximum(np.hypot(x, y), 1e-3)
        du = x / reach * (1.0 - fall) + fall * (0.07 * np.sign(u) - inwards * np.sign(u) * smoothstep(0.55, 0.95, v))
        du = du + wave * np.sin(v * 15.0 + 3.0 * u) * fall
        dv = np.maximum(y / reach, 0.25) * (1.0 - fall) + fall
        column = np.clip((u * 572.0 + 540.0 - HEAD.x).astype(int), 0, HEAD.w - 1)
        row = np.clip((v * 572.0 + 425.0 - HEAD.y).astype(int), 0, HEAD.h - 1)
        share = near_edge[row, column]
        du, dv = du + (along[row, column, 0] - du) * share, dv + (along[row, column, 1] - dv) * share
        return np.asarray(du, np.float32), np.asarray(dv, np.float32)

    def paint(board: F32, rng: np.random.Generator) -> None:
        u, v = HEAD.grid()
        _under(board, area, coat.ramp[0] * 0.7 + coat.ramp[1] * 0.3, skin, shadow)
        near = smoothstep(0.42, 0.33, np.abs(u)) * smoothstep(0.25, 0.5, v)
        shade = np.asarray(1.0 - 0.45 * near - 0.18 * smoothstep(0.0, 0.5, u), np.float32)
        grow = np.asarray(area * (blur(area, 10.0) > 0.05), np.float32)
        paint_strands(board, HEAD, grow, flow, coat, rng, Dome((0.0, 0.32), (0.56, 0.66)), shade)

    return paint


def _contour(area: F32) -> tuple[F32, F32]:
    """Directions along the outer contour of a head of hair (h, w, 2), downwards, and how much they count (h, w)."""
    rows: NDArray[np.bool_] = np.greater(area, 0.5)
    first, last = rows.argmax(axis=1), rows.shape[1] - 1 - rows[:, ::-1].argmax(axis=1)
    column = np.arange(rows.shape[1])[None]
    whole = (rows.max(axis=1, keepdims=True) & (column >= first[:, None]) & (column <= last[:, None])).astype(
        np.float32
    )
    soft = blur(whole, 46.0)
    slope = np.stack([np.gradient(soft, axis=1), np.gradient(soft, axis=0)], axis=-1)
    size = np.maximum(np.linalg.norm(slope, axis=-1, keepdims=True), 1e-6)
    along = np.stack([-slope[..., 1], slope[..., 0]], axis=-1) / size
    along *= np.where(along[..., 1:] < 0, -1.0, 1.0)
    _, v = HEAD.grid()
    share = smoothstep(0.95, 0.66, soft) * smoothstep(0.60, 0.40, v)
    return np.asarray(along, np.float32), np.asarray(share, np.float32)


def closed_area(half: Points, soft: float = 1.2) -> F32:
    """A symmetric area from its half at u >= 0."""
    return HEAD.polygon(spline(outline(half), 300, closed=True), soft)


def free_area(points: Points, soft: float = 1.2) -> F32:
    """Any closed area."""
    return HEAD.polygon(spline(points, 300, closed=True), soft)


__all__ = ["Flow", "closed_area", "cropped", "curls", "falling", "free_area", "ramp"]
