"""The presenter's 468 face-mesh points, as a table made by `training/presenter_template.py` from our own drawing."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from kernels.arrays import F32
from pipeline.presenter.geometry import BOARD_W, FACE_UNIT, to_board

TEMPLATE_FILE: Final = Path(__file__).with_name("template.npy")


@cache
def _table() -> F32:
    table = np.asarray(np.load(TEMPLATE_FILE, allow_pickle=False), dtype=np.float32)
    table.setflags(write=False)
    return table


def landmarks_on(width: int) -> F32:
    """The points on a canvas of `width` pixels that shows the whole drawing board.

    Returns:
        float32 (468, 3): x right, y down, z away from the viewer, canvas pixels, pixel centres at integers.
    """
    table, scale = _table(), np.float32(width / BOARD_W)
    points = np.empty_like(table)
    points[:, :2] = (to_board(table[:, :2]) + np.float32(0.5)) * scale - np.float32(0.5)
    points[:, 2] = table[:, 2] * np.float32(FACE_UNIT) * scale
    return points
