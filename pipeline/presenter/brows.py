"""Eyebrows of single hairs over a soft shadow."""

from __future__ import annotations

from dataclasses import dataclass, field

import cv2
import numpy as np

from kernels.arrays import F32
from pipeline.presenter.geometry import Points, mirrored, spline, to_board
from pipeline.presenter.raster import Window, fill_ribbon, over, rgb, smoothstep

LOWER_EDGE = [(0.074, 0.2550), (0.112, 0.2430), (0.160, 0.2310), (0.205, 0.2245), (0.250, 0.2315), (0.294, 0.2570)]
UPPER_EDGE = [(0.072, 0.2250), (0.112, 0.2130), (0.160, 0.2010), (0.208, 0.1980), (0.256, 0.2150), (0.296, 0.2530)]

_ZOOM = 3


@dataclass(frozen=True)
class BrowLook:
    """A brow: edges at u > 0 in face coordinates, colour of its hairs and of what shines through, width of a hair."""

    lower: Points = field(default_factory=lambda: LOWER_EDGE)
    upper: Points = field(default_factory=lambda: UPPER_EDGE)
    hair: F32 = field(default_factory=lambda: rgb("341c10"))
    under: F32 = field(default_factory=lambda: rgb("54301f"))
    under_amount: float = 0.52
    thick: float = 1.0


def paint_brow(board: F32, side: float, rng: np.random.Generator, look: BrowLook | None = None) -> None:
    """Paint one brow on `board` in place; side -1 viewer's left, +1 viewer's right."""
    look = look or BrowLook()
    low, high = (p if side > 0 else mirrored(p) for p in (look.lower, look.upper))
    lower, upper = spline(low, 200), spline(high, 200)
    both = np.concatenate([lower, upper[::-1]])
    window = Window.around(*(both.min(axis=0) - 0.05), *(both.max(axis=0) + 0.05))
    view = board[window.slices]
    u, _ = window.grid()
    under = window.polygon(both, soft=4.2) * smoothstep(0.055, 0.135, np.abs(u))
    over(view, look.under, look.under_amount * under)
    shape = (window.h * _ZOOM, window.w * _ZOOM)
    ink = np.zeros(shape, np.uint8)
    origin = np.array([window.x, window.y], dtype=np.float64)
    taper = np.array([0.55, 1.0, 0.95, 0.75, 0.45, 0.12])
    for _ in range(420):
        along, across = float(rng.beta(1.05, 1.0)), float(rng.beta(1.15, 1.15))
        k = int(np.clip(along * 199, 0, 198))
        root = lower[k] + (upper[k] - lower[k]) * across
        flow = (lower[k + 1] - lower[k]) + (upper[k + 1] - upper[k])
        flow = flow / np.linalg.norm(flow)
        rise = np.clip(0.72 - 1.7 * along, -0.24, 0.7) * (1.15 - 0.9 * across) - 0.25 * across * (along > 0.35)
        direction = flow + np.array([0.0, -1.0]) * rise + rng.normal(0, 0.07, 2)
        direction /= np.linalg.norm(direction)
        length = (0.034 - 0.010 * along) * rng.uniform(0.7, 1.15) * np.clip(1.6 - 1.1 * along, 0.5, 1.0)
        t = np.linspace(0.0, 1.0, 6)[:, None]
        bend = flow * 0.35 * t * t
        hair = root - direction * length * 0.25 + (direction * t + bend) * length
        fade = np.clip(0.34 + 1.7 * along, 0.34, 1.0)
        pixels = (to_board(hair) - origin + 0.5) * _ZOOM - 0.5
        fill_ribbon(ink, pixels, taper * (0.95 * look.thick) * _ZOOM, int(np.clip(rng.normal(150, 32) * fade, 40, 240)))
    alpha = cv2.resize(ink, (window.w, window.h), interpolation=cv2.INTER_AREA).astype(np.float32) / np.float32(255)
    over(view, look.hair, 0.90 * alpha)
