"""A studio out of focus: graded walls, blurred screens, small lamps as soft discs, a glow behind the head."""

from __future__ import annotations

import cv2
import numpy as np

from kernels.arrays import F32
from pipeline.presenter.geometry import BOARD_H, BOARD_W
from pipeline.presenter.raster import blur, over, rgb, smoothstep

_SCALE = 4


def _discs(canvas: F32, rng: np.random.Generator) -> None:
    """Lamps far behind: soft discs with a slightly brighter rim, away from the head."""
    h, w = canvas.shape[:2]
    yy, xx = np.mgrid[0:h, 0:w].astype(np.float32)
    tints = (rgb("7fb2e6"), rgb("f2c48a"), rgb("9ad1e8"), rgb("e6a873"), rgb("b7c9f2"))
    for i in range(34):
        x, y = rng.uniform(0.0, 1.0) * w, rng.uniform(0.02, 0.60) * h
        r = rng.uniform(0.010, 0.040) * w
        near_head = np.exp(-((x / w - 0.5) ** 2 / 0.050 + (y / h - 0.34) ** 2 / 0.040))
        d = np.hypot(xx - x, yy - y) / r
        disc = smoothstep(1.15, 0.85, d) * (0.62 + 0.38 * smoothstep(0.55, 0.98, d))
        over(canvas, tints[i % len(tints)], disc * np.float32(rng.uniform(0.10, 0.32) * (1.0 - near_head)))


def paint_background(board: F32, rng: np.random.Generator) -> None:
    """Fill `board` (1920, 1080, 3), sRGB 0..1, in place."""
    h, w = BOARD_H // _SCALE, BOARD_W // _SCALE
    yy, xx = np.mgrid[0:h, 0:w].astype(np.float32)
    x, y = xx / w, yy / h
    wall = np.empty((h, w, 3), np.float32)
    top, bottom = rgb("172742"), rgb("0d1626")
    wall[:] = top + (bottom - top) * smoothstep(0.15, 0.9, y)[..., None]
    for x0, x1, y0, y1, tint, amount, soft in (
        (-0.05, 0.190, 0.085, 0.430, "3577b8", 0.66, 6.0),
        (0.825, 1.05, 0.060, 0.395, "2f6cae", 0.60, 6.0),
        (0.255, 0.765, -0.03, 0.070, "4079b4", 0.42, 7.0),
        (0.212, 0.224, 0.0, 0.62, "8cc4f4", 0.40, 3.0),
        (0.786, 0.796, 0.0, 0.60, "8cc4f4", 0.34, 3.0),
        (-0.02, 0.014, 0.0, 1.0, "e0a164", 0.34, 6.0),
        (0.975, 1.02, 0.0, 1.0, "7cc0f6", 0.38, 6.0),
        (-0.05, 1.05, 0.520, 0.534, "6aa6de", 0.34, 4.0),
        (-0.05, 1.05, 0.534, 1.05, "080f1c", 0.55, 8.0),
    ):
        panel = ((x > x0) & (x < x1) & (y > y0) & (y < y1)).astype(np.float32)
        over(wall, rgb(tint), amount * blur(panel, soft))
    for k in range(6):  # rows of light inside the screens, as of text and maps far out of focus
        inside = (x < 0.150 - 0.022 * (k % 3)) | (x > 0.868 + 0.016 * (k % 2))
        row = ((np.abs(y - 0.135 - 0.045 * k) < 0.007) & inside).astype(np.float32)
        over(wall, rgb("b5d8f7"), 0.26 * blur(row, 3.4))
    glow = np.exp(-(((x - 0.50) / 0.44) ** 2 + ((y - 0.34) / 0.26) ** 2)).astype(np.float32)
    over(wall, rgb("4f80b5"), 0.46 * glow)
    warm = np.exp(-(((x - 0.0) / 0.40) ** 2 + ((y - 0.06) / 0.24) ** 2)).astype(np.float32)
    over(wall, rgb("d8975c"), 0.30 * warm)
    _discs(wall, rng)
    wall = blur(wall, 2.2)
    vignette = 1.0 - 0.30 * np.clip(np.hypot((x - 0.5) / 0.75, (y - 0.42) / 0.75) - 0.45, 0.0, 1.0)
    wall *= vignette[..., None]
    board[:] = cv2.resize(wall, (BOARD_W, BOARD_H), interpolation=cv2.INTER_CUBIC)
