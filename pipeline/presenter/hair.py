"""Hair: thousands of strands drawn as texture, lit by the smooth fields of where along and across the hair they lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import cv2
import numpy as np

from kernels.arrays import F32, F64, U8
from pipeline.presenter.geometry import spline, to_board
from pipeline.presenter.hair_guides import SAMPLES, TEMPLE, between, guides
from pipeline.presenter.raster import Window, blur, fill_ribbon, over, rgb, smoothstep
from pipeline.presenter.skin import DEFAULT_SKIN, Skin

HAIR_WINDOW: Final = Window.around(-0.80, -0.40, 0.80, 1.50)
_LOCKS: Final = 38


@dataclass(frozen=True)
class HairColours:
    """From the darkest to the brightest, and of what lies behind and of stray hairs; float32 (3,), sRGB 0..1."""

    deep: F32 = field(default_factory=lambda: rgb("150c09"))
    body: F32 = field(default_factory=lambda: rgb("38211a"))
    warm: F32 = field(default_factory=lambda: rgb("6f4329"))
    shine: F32 = field(default_factory=lambda: rgb("cd9a68"))
    behind: F32 = field(default_factory=lambda: rgb("170e0b"))
    stray: F32 = field(default_factory=lambda: rgb("5a3523"))


@dataclass(frozen=True)
class _Side:
    """A side of the hair.

    Attributes:
        side: -1 viewer's left, +1 viewer's right.
        paths: float64 (n, SAMPLES, 2), face coordinates.
        marks: uint8 (n, 3), per strand: own tone, tone of its lock, shift of its sheen.
        along: float32 (h, w), 0 at the root .. 1 at the tip, smooth over the window.
        across: float32 (h, w), 0 at the front edge .. 1 at the outer contour.
    """

    side: float
    paths: F64
    marks: U8
    along: F32
    across: F32


def _fields(side: float) -> tuple[F32, F32]:
    """Where along and across the hair every pixel of the window lies."""
    rows = 33
    s = np.linspace(-0.08, 1.06, rows)
    grid = np.round((to_board(between(guides(side), s)) - (HAIR_WINDOW.x, HAIR_WINDOW.y)) * 16).astype(np.int32)
    picture = np.zeros((HAIR_WINDOW.h, HAIR_WINDOW.w, 3), np.uint8)
    for i in range(rows - 1):
        for j in range(SAMPLES - 1):
            quad = np.array([grid[i, j], grid[i, j + 1], grid[i + 1, j + 1], grid[i + 1, j]])
            tone = (j + 0.5) / (SAMPLES - 1) * 255.0, (i + 0.5) / (rows - 1) * 255.0, 255.0
            cv2.fillPoly(picture, [quad], tone, cv2.LINE_8, 4)
    smooth = blur(picture.astype(np.float32) / np.float32(255.0), 7.0)
    weight = np.maximum(smooth[..., 2], 1e-3)
    return np.asarray(smooth[..., 0] / weight, np.float32), np.asarray(
        smooth[..., 1] / weight * 1.14 - 0.08, np.float32
    )


def _grow(side: float, n: int, rng: np.random.Generator) -> _Side:
    """Strands gathered into locks, each lock with its own sway, tone and sheen."""
    curves, t = guides(side), np.linspace(0.0, 1.0, SAMPLES)
    lock_s = (np.arange(_LOCKS) + rng.uniform(0.25, 0.75, _LOCKS)) / _LOCKS
    member = rng.integers(0, _LOCKS, n)
    spread = rng.normal(0, 0.50, n)
    s = np.clip(lock_s[member] + spread / _LOCKS, -0.035, 1.04)
    loose = rng.random(n) < 0.005  # a few strands leave the front edge and lie on the forehead
    s = np.where(loose, -0.02 - 0.045 * rng.random(n), s)
    paths, centre = between(curves, s), between(curves, lock_s)[member]
    paths = paths + (centre - paths) * (np.clip((t - 0.42) / 0.58, 0, 1) ** 1.5 * 0.34)[None, :, None]
    fall = np.clip((t - TEMPLE) / 0.4, 0, 1)
    phase = (rng.uniform(0, 2 * np.pi, _LOCKS) * 0.22)[member, None] + 1.3 * s[:, None]
    paths[..., 0] += 0.012 * np.sin(2 * np.pi * 2.3 * t[None] + phase) * fall
    paths += rng.normal(0, 0.0017, (n, 1, 2))
    ends = (
        1.0
        - (0.07 * rng.random(_LOCKS))[member]
        - (0.03 + 0.17 * np.minimum(np.abs(spread), 1.2)) * rng.random(n) ** 0.8
    )
    for axis in (0, 1):  # uneven tips
        paths[..., axis] = np.stack([np.interp(t * e, t, p) for e, p in zip(ends, paths[..., axis], strict=True)])
    own = 128 + rng.normal(0, 34, n)
    lock = (128 + rng.normal(0, 40, _LOCKS))[member] - 34 * np.clip(np.abs(spread) - 0.25, 0, 1)
    shift = (128 + rng.normal(0, 42, _LOCKS))[member] + rng.normal(0, 26, n)
    marks = np.clip(np.stack([own, lock, shift], axis=1), 1, 255).astype(np.uint8)
    return _Side(side, paths, marks, *_fields(side))


def _texture(strands: _Side, first: float, last: float) -> tuple[F32, F32]:
    """Marks (h, w, 3) in -1..1 and coverage (h, w) of the pieces first..last of all strands."""
    marks = np.zeros((HAIR_WINDOW.h, HAIR_WINDOW.w, 3), np.uint8)
    cover = np.zeros((HAIR_WINDOW.h, HAIR_WINDOW.w), np.uint8)
    lo, hi = int(first * (SAMPLES - 1)), int(np.ceil(last * (SAMPLES - 1))) + 1
    pixels = np.round((to_board(strands.paths) - (HAIR_WINDOW.x, HAIR_WINDOW.y)) * 16).astype(np.int32)[:, lo:hi]
    for k, (path, mark) in enumerate(zip(pixels, strands.marks.tolist(), strict=True)):
        thick = 1 if k % 3 else 2
        cv2.polylines(marks, [path], False, mark, thick, cv2.LINE_AA, 4)
        cv2.polylines(cover, [path], False, 255, thick, cv2.LINE_AA, 4)
    weight = cover.astype(np.float32) / np.float32(255.0)
    filled = blur(marks.astype(np.float32), 0.55) / np.maximum(blur(weight, 0.55), 0.02)[..., None]
    return np.asarray(np.clip(filled / 128.0 - 1.0, -1.0, 1.0), np.float32), weight


def _light(strands: _Side, marks: F32, v: F32, colours: HairColours) -> F32:
    """Colour of the hair, float32 (h, w, 3)."""
    t = strands.along + 0.050 * marks[..., 2]
    s = np.clip(strands.across, 0.0, 1.0)
    lit = np.float32(1.0 if strands.side < 0 else 0.74)
    crown = np.exp(-0.5 * ((t - 0.205 - 0.030 * s) / 0.060) ** 2) * (
        0.55 + 0.45 * np.sin(np.pi * np.clip(s + 0.15, 0, 1))
    )
    curve_1 = np.exp(-0.5 * ((t - 0.625) / 0.050) ** 2) * smoothstep(0.10, 0.45, s)
    curve_2 = np.exp(-0.5 * ((t - 0.875) / 0.045) ** 2) * smoothstep(0.05, 0.35, s)
    level = 0.30 + lit * (0.46 * crown + 0.30 * curve_1 + 0.20 * curve_2)
    level += 0.085 * marks[..., 0] + 0.16 * marks[..., 1]
    level *= 1.0 - 0.42 * np.exp(-0.5 * ((strands.along - 0.475) / 0.05) ** 2) * smoothstep(0.75, 0.15, s)
    level *= 1.0 - 0.45 * np.exp(-strands.along / 0.030)
    level *= 1.0 - 0.50 * smoothstep(0.42, 0.0, s) * smoothstep(0.50, 0.62, strands.along)  # behind jaw and neck
    level *= 1.0 - 0.22 * smoothstep(0.86, 1.04, s)
    level *= 1.0 - 0.20 * smoothstep(0.9, 1.3, v)
    stops = np.stack([colours.deep, colours.body, colours.warm, colours.shine])
    x = np.array([0.0, 0.30, 0.60, 1.0])
    colour = np.stack([np.interp(level, x, stops[:, c]) for c in range(3)], axis=-1).astype(np.float32)
    edge = smoothstep(0.91, 1.03, strands.across + 0.02 * marks[..., 0]) * (0.6 + 0.4 * marks[..., 1])
    tint, amount = (rgb("ffcf9a"), 0.16) if strands.side < 0 else (rgb("8fc4ff"), 0.26)
    return np.asarray(colour + (amount * edge * smoothstep(0.02, 0.12, strands.along))[..., None] * tint, np.float32)


@dataclass(frozen=True)
class Hair:
    """Both sides of the hair, grown once and painted in layers between the other parts."""

    sides: tuple[_Side, _Side]
    colours: HairColours = field(default_factory=HairColours)
    skin: Skin = DEFAULT_SKIN

    @classmethod
    def grow(cls, rng: np.random.Generator, colours: HairColours | None = None, skin: Skin = DEFAULT_SKIN) -> Hair:
        """Grow the hair; the same generator state gives the same hair."""
        return cls((_grow(-1.0, 4200, rng), _grow(1.0, 3800, rng)), colours or HairColours(), skin)

    def _paint(self, board: F32, sides: tuple[_Side, ...], first: float, last: float, fade: float) -> None:
        view = board[HAIR_WINDOW.slices]
        _, v = HAIR_WINDOW.grid()
        for strands in sides:
            marks, cover = _texture(strands, first, last)
            keep = smoothstep(fade, fade - 0.05, strands.along)
            tip = 0.985 - 0.075 * marks[..., 0] - 0.055 * marks[..., 1] - 0.03 * marks[..., 2]
            keep = keep * smoothstep(0.0, 0.085, tip - strands.along)
            over(view, _light(strands, marks, v, self.colours), blur(cover, 0.5) * keep)

    def paint_behind(self, board: F32) -> None:
        """The dark mass behind neck and head."""
        half = [
            (0.0, -0.255),
            (0.26, -0.205),
            (0.445, -0.03),
            (0.525, 0.30),
            (0.55, 0.70),
            (0.55, 1.02),
            (0.48, 1.22),
            (0.20, 1.20),
        ]
        shape = spline([*half, *((-u, v) for u, v in reversed(half[1:]))], 300, closed=True)
        over(board[HAIR_WINDOW.slices], self.colours.behind, HAIR_WINDOW.polygon(shape, soft=4.0))

    def paint_fall(self, board: F32, side: float) -> None:
        """From one ear to the shoulder, with its shadow on what lies behind."""
        strands = self.sides[0 if side < 0 else 1]
        ring = between(guides(side), np.array([0.02, 0.98]))[:, SAMPLES // 2 : -9]
        ring = np.concatenate([ring[0], ring[1][::-1]])
        shadow = HAIR_WINDOW.polygon(ring + (0.012, 0.016), soft=9.0)
        over(board[HAIR_WINDOW.slices], rgb("0a0608"), 0.50 * shadow)
        self._paint(board, (strands,), TEMPLE - 0.08, 1.0, fade=2.0)

    def paint_crown(self, board: F32) -> None:
        """From the parting to the ears, over forehead and temples, with its shadow on the skin."""
        view = board[HAIR_WINDOW.slices]
        count = int(SAMPLES * (TEMPLE - 0.03))
        for strands in self.sides:
            ring = between(guides(strands.side), np.array([0.035, 0.985]))[:, :count]
            ring = np.concatenate([ring[0], ring[1][::-1]])
            over(view, self.skin.tone("7a4632"), 0.40 * HAIR_WINDOW.polygon(ring + (0.006, 0.030), soft=14.0))
            over(view, self.skin.tone("4a281d"), 0.55 * HAIR_WINDOW.polygon(ring + (0.003, 0.010), soft=4.0))
            over(view, self.colours.deep, HAIR_WINDOW.polygon(ring, soft=2.2))
        self._paint(board, self.sides, 0.0, TEMPLE + 0.04, fade=TEMPLE + 0.03)

    def paint_wisps(self, board: F32, rng: np.random.Generator) -> None:
        """Baby hairs along the hairline and stray hairs around the contour, so that no edge is cut out of paper."""
        ink = np.zeros((HAIR_WINDOW.h, HAIR_WINDOW.w), np.uint8)
        for strands in self.sides:
            curves = guides(strands.side)
            for _ in range(95):
                outer = rng.random() < 0.84
                base = curves[-1] if outer else curves[0]
                start = int(rng.integers(2, SAMPLES - 18) if outer else rng.integers(2, 17))
                piece = base[start : start + (int(rng.integers(9, 18)) if outer else 7)].copy()
                grow = np.linspace(0.0, 1.0, len(piece)) ** 1.5
                away = rng.uniform(-0.004, 0.022) if outer else -rng.uniform(0.002, 0.010)
                piece[:, 0] += strands.side * away * grow
                piece[:, 1] -= away * 0.4 * grow if outer else away * 0.9 * grow
                width = np.linspace(1.1, 0.2, len(piece))
                fill_ribbon(
                    ink,
                    to_board(piece) - (HAIR_WINDOW.x, HAIR_WINDOW.y),
                    width,
                    int(rng.integers(60, 150) if outer else rng.integers(25, 70)),
                )
        over(board[HAIR_WINDOW.slices], self.colours.stray, blur(ink.astype(np.float32) / np.float32(255), 0.5))
