"""A studio out of focus: graded walls, blurred screens, small lamps as soft discs, a glow behind the head."""

from __future__ import annotations

import cv2
import numpy as np

from pipeline.presenter.geometry import BOARD_H, BOARD_W, F32
from pipeline.presenter.raster import blur, over, rgb, smoothstep

_SCALE = 4


def _discs(canvas: F32, rng: np.random.Generator) -> None:
    """Lamps far behind: soft discs with a slightly brighter rim, away from the head."""
    h, w = canvas.shape[:2]
    yy, xx = np.mgrid[0:h, 0:w].astype(np.float32)
    tints = (rgb("7fb2e6"), rgb("f2c48a"), rgb("9ad1e8"), rgb("e6a873"), rgb("b7c9f2"))
    for i in range(30):
        x, y = rng.uniform(0.0, 1.0) * w, rng.uniform(0.02, 0.60) * h
        r = rng.uniform(0.012, 0.042) * w
        near_head = np.exp(-((x / w - 0.5) ** 2 / 0.050 + (y / h - 0.33) ** 2 / 0.030))
        d = np.hypot(xx - x, yy - y) / r
        disc = smoothstep(1.15, 0.85, d) * (0.62 + 0.38 * smoothstep(0.55, 0.98, d))
        over(canvas, tints[i % len(tints)], disc * np.float32(rng.uniform(0.06, 0.22) * (1.0 - near_head)))


def paint_background(board: F32, rng: np.random.Generator) -> None:
    """Fill `board` (1920, 1080, 3), sRGB 0..1, in place."""
    h, w = BOARD_H // _SCALE, BOARD_W // _SCALE
    yy, xx = np.mgrid[0:h, 0:w].astype(np.float32)
    x, y = xx / w, yy / h
    wall = np.empty((h, w, 3), np.float32)
    top, bottom = rgb("172742"), rgb("0d1626")
    wall[:] = top + (bottom - top) * smoothstep(0.15, 0.9, y)[..., None]
    for x0, x1, y0, y1, tint, amount in (
        (-0.05, 0.205, 0.10, 0.455, "2f6aa8", 0.62),
        (0.815, 1.05, 0.07, 0.415, "2a5d98", 0.55),
        (0.245, 0.775, -0.02, 0.085, "35679c", 0.35),
        (0.0, 0.03, 0.0, 1.0, "d59a62", 0.20),
        (0.955, 0.985, 0.0, 1.0, "6fb4ee", 0.30),
        (-0.05, 1.05, 0.505, 0.525, "4f8cc8", 0.26),
    ):
        panel = ((x > x0) & (x < x1) & (y > y0) & (y < y1)).astype(np.float32)
        over(wall, rgb(tint), np.float32(amount) * blur(panel, 7.0))
    for k in range(6):  # rows of light inside the screens, as of text and maps far out of focus
        row = (
            (np.abs(y - 0.14 - 0.05 * k) < 0.008) & ((x < 0.16 - 0.02 * (k % 3)) | (x > 0.86 + 0.015 * (k % 2)))
        ).astype(np.float32)
        over(wall, rgb("9cc7f0"), 0.20 * blur(row, 4.0))
    glow = np.exp(-(((x - 0.50) / 0.46) ** 2 + ((y - 0.36) / 0.27) ** 2)).astype(np.float32)
    over(wall, rgb("4a78ab"), 0.42 * glow)
    warm = np.exp(-(((x - 0.02) / 0.35) ** 2 + ((y - 0.10) / 0.25) ** 2)).astype(np.float32)
    over(wall, rgb("c98d5a"), 0.20 * warm)
    _discs(wall, rng)
    wall = blur(wall, 2.2)
    vignette = 1.0 - 0.30 * np.clip(np.hypot((x - 0.5) / 0.75, (y - 0.42) / 0.75) - 0.45, 0.0, 1.0)
    wall *= vignette[..., None]
    board[:] = cv2.resize(wall, (BOARD_W, BOARD_H), interpolation=cv2.INTER_CUBIC)
