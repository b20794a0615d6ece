"""All parts on one board, back to front."""

from __future__ import annotations

import numpy as np

from kernels.arrays import F32
from pipeline.presenter.background import paint_background
from pipeline.presenter.brows import paint_brow
from pipeline.presenter.clothing import paint_clothes
from pipeline.presenter.desk import paint_desk
from pipeline.presenter.ears import paint_ear
from pipeline.presenter.eyes import paint_eye
from pipeline.presenter.face import paint_face
from pipeline.presenter.geometry import BOARD_H, BOARD_W
from pipeline.presenter.hair import Hair
from pipeline.presenter.lips import paint_lips
from pipeline.presenter.neck import paint_neck

_SEED = 7


def paint_board() -> F32:
    """The finished picture at board size, float32 (1920, 1080, 3), sRGB 0..1; the same numbers on every call."""
    rng = np.random.default_rng(_SEED)
    board = np.zeros((BOARD_H, BOARD_W, 3), np.float32)
    paint_background(board, rng)
    hair = Hair.grow(rng)
    hair.paint_behind(board)
    paint_neck(board, rng)
    hair.paint_fall(board, 1.0)  # on the viewer's right the hair falls behind the shoulder
    paint_clothes(board, rng)
    paint_desk(board, rng)
    hair.paint_fall(board, -1.0)
    paint_face(board, rng)
    paint_lips(board, rng)
    for side in (-1.0, 1.0):
        paint_brow(board, side, rng)
        paint_eye(board, side, rng)
    hair.paint_crown(board)
    for side in (-1.0, 1.0):
        paint_ear(board, side)
    hair.paint_wisps(board, rng)
    return np.clip(board, 0.0, 1.0)
