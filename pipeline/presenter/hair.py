"""Hair: strands that follow guide curves from the parting over the skull, behind the ears and down to the shoulders."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.presenter.geometry import BOARD_H, BOARD_W, F32, Points, spline, to_board
from pipeline.presenter.raster import Window, blur, fill_ribbon, over, rgb

_SAMPLES = 44
TEMPLE = 0.47
"""Share of a strand's length at which it passes the ear: before it lies the crown, after it the fall."""

# Guides from the front edge of the hair (first) to its outer contour (last), root to tip, viewer's left then right.
_LEFT: tuple[Points, ...] = (
    [
        (0.088, 0.030),
        (-0.010, 0.043),
        (-0.135, 0.090),
        (-0.245, 0.160),
        (-0.325, 0.240),
        (-0.378, 0.325),
        (-0.395, 0.48),
        (-0.350, 0.68),
        (-0.285, 0.88),
        (-0.280, 1.05),
        (-0.330, 1.21),
        (-0.405, 1.36),
    ],
    [
        (0.092, -0.020),
        (-0.02, -0.030),
        (-0.165, 0.012),
        (-0.295, 0.095),
        (-0.380, 0.205),
        (-0.420, 0.335),
        (-0.437, 0.50),
        (-0.415, 0.69),
        (-0.375, 0.88),
        (-0.380, 1.05),
        (-0.430, 1.22),
        (-0.455, 1.39),
    ],
    [
        (0.090, -0.110),
        (-0.04, -0.140),
        (-0.215, -0.095),
        (-0.360, 0.015),
        (-0.440, 0.165),
        (-0.470, 0.330),
        (-0.487, 0.50),
        (-0.485, 0.69),
        (-0.482, 0.88),
        (-0.505, 1.05),
        (-0.535, 1.22),
        (-0.495, 1.39),
    ],
    [
        (0.060, -0.235),
        (-0.06, -0.262),
        (-0.255, -0.215),
        (-0.432, -0.060),
        (-0.512, 0.125),
        (-0.540, 0.320),
        (-0.556, 0.50),
        (-0.570, 0.69),
        (-0.585, 0.88),
        (-0.610, 1.04),
        (-0.618, 1.19),
        (-0.545, 1.34),
    ],
)
_RIGHT: tuple[Points, ...] = (
    [
        (0.088, 0.030),
        (0.135, 0.045),
        (0.215, 0.095),
        (0.290, 0.165),
        (0.348, 0.245),
        (0.386, 0.330),
        (0.400, 0.48),
        (0.352, 0.68),
        (0.283, 0.88),
        (0.280, 1.05),
        (0.335, 1.20),
        (0.410, 1.34),
    ],
    [
        (0.092, -0.020),
        (0.160, -0.020),
        (0.250, 0.025),
        (0.338, 0.100),
        (0.398, 0.210),
        (0.426, 0.340),
        (0.441, 0.50),
        (0.415, 0.69),
        (0.370, 0.88),
        (0.378, 1.05),
        (0.430, 1.21),
        (0.462, 1.37),
    ],
    [
        (0.090, -0.110),
        (0.180, -0.125),
        (0.300, -0.070),
        (0.400, 0.030),
        (0.455, 0.170),
        (0.476, 0.330),
        (0.490, 0.50),
        (0.486, 0.69),
        (0.476, 0.88),
        (0.500, 1.05),
        (0.535, 1.21),
        (0.505, 1.38),
    ],
    [
        (0.060, -0.235),
        (0.185, -0.245),
        (0.335, -0.180),
        (0.462, -0.040),
        (0.524, 0.135),
        (0.548, 0.320),
        (0.562, 0.50),
        (0.572, 0.69),
        (0.582, 0.88),
        (0.606, 1.04),
        (0.615, 1.19),
        (0.550, 1.33),
    ],
)

DEEP, BODY, WARM, SHINE = rgb("1a0f0b"), rgb("3a2317"), rgb("6b4226"), rgb("c08a58")


@dataclass(frozen=True)
class Strands:
    """Many strands: `paths` float64 (n, 44, 2) in face coordinates, `level` float64 (n, 44) brightness 0..1."""

    paths: NDArray[np.float64]
    level: NDArray[np.float64]
    width: NDArray[np.float64]


def _guides(points: tuple[Points, ...]) -> NDArray[np.float64]:
    return np.stack([spline(p, _SAMPLES) for p in points])


def _between(guides: NDArray[np.float64], s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Strands at positions s (n,) in 0..1 between the guides: (n, 44, 2)."""
    x = np.clip(s, 0.0, 1.0) * (len(guides) - 1)
    k = np.minimum(x.astype(int), len(guides) - 2)
    f = (x - k)[:, None, None]
    return np.asarray(guides[k] * (1 - f) + guides[k + 1] * f, dtype=np.float64)


def _grow(side: float, n: int, rng: np.random.Generator) -> Strands:
    """Strands of one side: gathered into locks, each lock with its own wave, tone and sheen."""
    guides = _guides(_LEFT if side < 0 else _RIGHT)
    locks = 34
    lock_s = (np.arange(locks) + rng.uniform(0.2, 0.8, locks)) / locks
    member = rng.integers(0, locks, n)
    s = lock_s[member] + rng.normal(0, 0.55 / locks, n)
    paths = _between(guides, s)
    t = np.linspace(0.0, 1.0, _SAMPLES)
    centre = _between(guides, lock_s)[member]
    gather = (np.clip((t - 0.35) / 0.65, 0, 1) ** 1.3 * 0.62)[None, :, None]
    paths = paths + (centre - paths) * gather
    fall = np.clip((t - TEMPLE) / 0.35, 0, 1)
    phase = rng.uniform(0, 2 * np.pi, locks)[member, None] * 0.28 + 1.1 * s[:, None]
    wave = 0.022 * np.sin(2 * np.pi * 1.35 * t[None] * 1.6 + phase) * fall
    paths[..., 0] += wave * (0.6 + 0.6 * s[:, None])
    paths += rng.normal(0, 0.0016, (n, 1, 2))
    ends = 1.0 - (0.17 * rng.random(locks) ** 1.3)[member] - 0.07 * rng.random(n) ** 1.5
    for axis in (0, 1):  # uneven tips: resample each strand to its own length
        paths[..., axis] = np.stack([np.interp(t * e, t, p) for e, p in zip(ends, paths[..., axis], strict=True)])
    shift = rng.normal(0, 0.020, locks)[member, None] + rng.normal(0, 0.012, (n, 1))
    crown = np.exp(-0.5 * ((t[None] - 0.200 - 0.05 * s[:, None] + shift) / 0.055) ** 2)
    fall_shine = np.exp(-0.5 * ((t[None] - 0.70 + shift) / 0.060) ** 2)
    lit = 1.0 if side < 0 else 0.62
    level = 0.24 + 0.60 * lit * crown + 0.36 * lit * fall_shine
    level += rng.normal(0, 0.10, locks)[member, None] + rng.normal(0, 0.055, (n, 1))
    level -= 0.20 * np.exp(-0.5 * ((t[None] - 0.50) / 0.07) ** 2)  # tucked behind the ear
    level -= 0.16 * np.exp(-t[None] / 0.035)  # roots
    level *= 0.80 + 0.35 * np.clip(s[:, None], 0, 1)
    return Strands(paths, np.clip(level, 0.0, 1.0), 1.5 * rng.uniform(0.7, 1.25, n))


def _tone(level: NDArray[np.float64]) -> NDArray[np.float64]:
    stops = np.stack([DEEP, BODY, WARM, SHINE]).astype(np.float64)
    x = np.array([0.0, 0.30, 0.62, 1.0])
    return np.stack([np.interp(level, x, stops[:, c]) for c in range(3)], axis=-1)


def _draw(strands: Strands, first: float, last: float) -> tuple[F32, F32]:
    """Draw strand pieces first..last (share of the length): colour (H, W, 3) and coverage (H, W)."""
    ink = np.zeros((BOARD_H, BOARD_W, 3), np.uint8)
    cover = np.zeros((BOARD_H, BOARD_W), np.uint8)
    lo, hi = int(first * (_SAMPLES - 1)), int(last * (_SAMPLES - 1))
    colours = np.clip(_tone(strands.level) * 255, 0, 255)
    pixels = to_board(strands.paths)
    step = 3
    for n, (path, colour, width) in enumerate(zip(pixels, colours, strands.width, strict=True)):
        fixed = np.round(path * 16).astype(np.int32)
        thick = 2 if width > 1.5 else 1
        for i in range(lo - n % step, hi, step):  # staggered, so that the steps of tone do not line up
            i, j = max(i, lo), min(i + step, hi)
            cv2.polylines(ink, [fixed[i : j + 1]], False, colour[(i + j) // 2].tolist(), thick, cv2.LINE_AA, 4)
        cv2.polylines(cover, [fixed[lo : hi + 1]], False, 255, thick, cv2.LINE_AA, 4)
    return ink.astype(np.float32) / np.float32(255), cover.astype(np.float32) / np.float32(255)


@dataclass(frozen=True)
class Hair:
    """Both sides of the hair, grown once and painted in layers between the other parts."""

    left: Strands
    right: Strands

    @classmethod
    def grow(cls, rng: np.random.Generator) -> Hair:
        """Grow the hair; the same generator state gives the same hair."""
        return cls(_grow(-1.0, 1500, rng), _grow(1.0, 1300, rng))

    def _paint(self, board: F32, first: float, last: float) -> None:
        for strands in (self.left, self.right):
            ink, cover = _draw(strands, first, last)
            solid = blur(cover, 0.6)
            ink = blur(ink * cover[..., None], 0.7) / np.maximum(blur(cover, 0.7), 1e-3)[..., None]
            over(board, np.asarray(ink, np.float32), np.clip(solid * 1.15, 0.0, 1.0))

    def paint_behind(self, board: F32) -> None:
        """The dark mass behind neck and head."""
        shape = spline(
            [
                (0.0, -0.250),
                (0.26, -0.195),
                (0.44, -0.03),
                (0.505, 0.30),
                (0.53, 0.70),
                (0.56, 1.02),
                (0.48, 1.24),
                (0.2, 1.20),
                (0.0, 1.18),
                (-0.2, 1.20),
                (-0.48, 1.24),
                (-0.56, 1.02),
                (-0.53, 0.70),
                (-0.505, 0.30),
                (-0.44, -0.03),
                (-0.26, -0.195),
            ],
            300,
            closed=True,
        )
        window = Window.around(-0.75, -0.35, 0.75, 1.5)
        over(board[window.slices], rgb("140b08"), window.polygon(shape, soft=5.0))

    def paint_fall(self, board: F32) -> None:
        """From the ears to the shoulders."""
        self._paint(board, TEMPLE - 0.06, 1.0)

    def paint_crown(self, board: F32) -> None:
        """From the parting to the ears, over forehead and temples, with the shadow that it throws on the skin."""
        window = Window.around(-0.60, -0.35, 0.60, 0.60)
        view = board[window.slices]
        for guides in (_LEFT, _RIGHT):
            edge = spline(guides[0], 80)[:38]
            outer = spline(guides[-1], 80)[:38]
            area = np.concatenate([edge, outer[::-1]])
            over(view, rgb("6a3b2a"), 0.50 * window.polygon(area + (0.004, 0.016), soft=8.0))
            over(view, DEEP, window.polygon(area, soft=1.6))
        self._paint(board, 0.0, TEMPLE + 0.02)

    def paint_wisps(self, board: F32, rng: np.random.Generator) -> None:
        """Baby hairs along the hairline and stray hairs around the contour, so that no edge is cut out of paper."""
        window = Window.around(-0.75, -0.40, 0.75, 1.45)
        ink = np.zeros((window.h, window.w), np.uint8)
        taper = np.linspace(1.0, 0.15, _SAMPLES // 2)
        origin = np.array([window.x, window.y], dtype=np.float64)
        for side, points in ((-1.0, _LEFT), (1.0, _RIGHT)):
            guides = _guides(points)
            for _ in range(70):
                outer = rng.random() < 0.72
                base = guides[-1] if outer else guides[0]
                start = int(rng.integers(2, 20 if not outer else _SAMPLES - _SAMPLES // 2 - 1))
                n = _SAMPLES // 2 if outer else max(4, min(_SAMPLES // 2, 19 - start))
                n = max(n, 4)
                piece = base[start : start + n].copy()
                grow = np.linspace(0.0, 1.0, len(piece)) ** 1.4
                away = rng.uniform(0.004, 0.030) if outer else -rng.uniform(0.002, 0.012)
                piece[:, 0] += side * away * grow
                piece[:, 1] -= away * 0.5 * grow * (1.0 if outer else -0.4)
                shade = int(rng.integers(70, 150))
                fill_ribbon(
                    ink,
                    to_board(piece) - origin,
                    1.15 * np.interp(np.linspace(0, 1, len(piece)), np.linspace(0, 1, len(taper)), taper),
                    shade,
                )
        over(board[window.slices], WARM * np.float32(0.75), blur(ink.astype(np.float32) / np.float32(255), 0.5))
