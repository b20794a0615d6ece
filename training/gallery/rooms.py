"""What stands behind the sitters, out of focus: a studio of another colour, an office by day, and plain paper."""

from __future__ import annotations

import cv2
import numpy as np

from kernels.arrays import F32
from pipeline.presenter.background import paint_background
from pipeline.presenter.geometry import BOARD_H, BOARD_W
from pipeline.presenter.raster import blur, over, rgb, smooth_noise, smoothstep
from training.gallery.short_hair import Paint

_SCALE = 4


def studio(warmth: float) -> Paint:
    """The studio of the default presenter, its blue turned towards red by `warmth`, 0..1."""

    def paint(board: F32, rng: np.random.Generator) -> None:
        paint_background(board, rng)
        turn = np.array(
            [
                [1 - warmth, 0.25 * warmth, 0.75 * warmth],
                [0.12 * warmth, 1 - 0.4 * warmth, 0.22 * warmth],
                [warmth * 0.42, 0.1 * warmth, 1 - 0.62 * warmth],
            ],
            np.float32,
        )
        board[:] = board @ turn.T

    return paint


def plain(top: str, bottom: str) -> Paint:
    """A paper roll lit from the viewer's left, with a soft pool of light behind the head."""

    def paint(board: F32, rng: np.random.Generator) -> None:
        y, x = np.mgrid[0:BOARD_H, 0:BOARD_W].astype(np.float32)
        x, y = x / BOARD_W, y / BOARD_H
        board[:] = rgb(top) + (rgb(bottom) - rgb(top)) * smoothstep(0.0, 1.0, y)[..., None]
        pool = np.exp(-(((x - 0.42) / 0.50) ** 2 + ((y - 0.34) / 0.30) ** 2))
        board *= (0.86 + 0.20 * pool - 0.10 * (x - 0.3))[..., None]
        board += 0.004 * smooth_noise(rng, (BOARD_H, BOARD_W), 3.0)[..., None]

    return paint


def office(wall: str, accent: str) -> Paint:
    """A bright office far out of focus: a window with daylight, shelves with books, a plant."""

    def paint(board: F32, rng: np.random.Generator) -> None:
        h, w = BOARD_H // _SCALE, BOARD_W // _SCALE
        yy, xx = np.mgrid[0:h, 0:w].astype(np.float32)
        x, y = xx / w, yy / h
        room = np.empty((h, w, 3), np.float32)
        room[:] = rgb(wall) * (1.02 - 0.30 * smoothstep(0.2, 1.0, x) - 0.20 * smoothstep(0.5, 1.0, y))[..., None]

        def block(x0: float, x1: float, y0: float, y1: float, tint: F32, amount: float, soft: float) -> None:
            inside = ((x > x0) & (x < x1) & (y > y0) & (y < y1)).astype(np.float32)
            over(room, tint, amount * blur(inside, soft))

        sky = np.empty_like(room)
        sky[:] = rgb("f4f7fa") + (rgb("cfdde6") - rgb("f4f7fa")) * smoothstep(0.1, 0.5, y)[..., None]
        over(room, sky, blur(((x < 0.31) & (y < 0.60)).astype(np.float32), 6.0))
        for _ in range(16):  # houses and trees behind the glass
            x0, top, wide = rng.uniform(-0.05, 0.30), rng.uniform(0.26, 0.48), rng.uniform(0.03, 0.10)
            block(
                x0,
                min(x0 + wide, 0.30),
                top,
                0.59,
                rgb(("9fb0b8", "8ea394", "b9b4a8")[int(rng.integers(3))]),
                0.35,
                4.0,
            )
        for x0 in (0.145, 0.305):
            block(x0, x0 + 0.016, -0.1, 0.60, rgb("dfe3e4"), 0.9, 2.6)
        block(-0.1, 0.325, 0.585, 0.605, rgb("e6e7e5"), 0.9, 2.6)
        for row in range(4):  # shelves on the viewer's right
            y0 = 0.10 + 0.145 * row
            block(0.70, 1.1, y0 - 0.11, y0, rgb("3d3531"), 0.42, 5.0)
            at = 0.715
            while at < 1.02:
                wide, high = rng.uniform(0.018, 0.045), rng.uniform(0.055, 0.095)
                tint = rgb(("7a4b3a", "d8cbb5", "46606b", "a8623f", "c7b58f", "5a6d58", accent)[int(rng.integers(7))])
                if rng.random() < 0.82:
                    block(at, at + wide, y0 - high, y0 - 0.004, tint, 0.85, 2.6)
                at += wide + 0.004
            block(0.70, 1.1, y0 - 0.004, y0 + 0.010, rgb("b59a78"), 0.9, 2.4)
        for _ in range(42):  # a plant
            cx, cy = rng.normal(0.64, 0.055), rng.normal(0.47, 0.085)
            leaf = np.zeros((h, w), np.uint8)
            cv2.ellipse(
                leaf,
                (int(cx * w), int(cy * h)),
                (int(rng.uniform(9, 20)), int(rng.uniform(3, 6))),
                float(rng.uniform(0, 180)),
                0,
                360,
                255,
                -1,
                cv2.LINE_AA,
            )
            tint = rgb(("4d7350", "6f9463", "3c5b45", "8cab77")[int(rng.integers(4))])
            over(room, tint, 0.72 * blur(leaf.astype(np.float32) / np.float32(255), 2.6))
        glow = np.exp(-(((x - 0.05) / 0.42) ** 2 + ((y - 0.30) / 0.34) ** 2))
        over(room, rgb("fff6e6"), np.asarray(0.34 * glow, np.float32))
        room = blur(room, 5.2)
        edge = 1.0 - 0.26 * np.clip(np.hypot((x - 0.45) / 0.80, (y - 0.40) / 0.80) - 0.40, 0.0, 1.0)
        room *= (0.93 * edge)[..., None]
        board[:] = cv2.resize(room, (BOARD_W, BOARD_H), interpolation=cv2.INTER_CUBIC)

    return paint
