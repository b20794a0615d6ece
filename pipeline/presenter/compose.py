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
_LIFT = 0.25


def paint_board() -> F32:
    """The finished picture at board size, float32 (1920, 1080, 3), sRGB 0..1; the same numbers on every call."""
    return np.clip(_paint(0.0), 0.0, 1.0)


def person_cover() -> F32:
    """The presenter's share of every pixel, float32 (1920, 1080), 0..1, exact: the picture is painted over two backgrounds.

    Paint that covers a share `a` of a pixel leaves (1 - a) of what the two backgrounds differ by. The desk in front counts as none.
    """
    covered = 1.0 - (_paint(_LIFT) - _paint(0.0)).mean(axis=-1) / _LIFT
    dark, light = np.zeros((BOARD_H, BOARD_W, 3), np.float32), np.full((BOARD_H, BOARD_W, 3), _LIFT, np.float32)
    for board in (dark, light):
        paint_desk(board, np.random.default_rng(_SEED))
    desk = 1.0 - (light - dark).mean(axis=-1) / _LIFT
    return np.asarray(np.clip(covered, 0.0, 1.0) * (1.0 - np.clip(desk, 0.0, 1.0)), dtype=np.float32)


def _paint(lift: float) -> F32:
    """The picture, its background brighter by `lift`."""
    rng = np.random.default_rng(_SEED)
    board = np.zeros((BOARD_H, BOARD_W, 3), np.float32)
    paint_background(board, rng)
    board += np.float32(lift)
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
    return board
