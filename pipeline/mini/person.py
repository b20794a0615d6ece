"""Which part of a canvas is the presenter, and which rectangle moves with it."""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np

from engines.face import topology
from engines.face.selfie import SelfieSegmenter
from engines.mini.outline import BAND_PX, CHEST_ENDS, SOLID, one_person
from kernels.arrays import F32, F64, U8
from pipeline.avatars.face_crop import CropSquare
from pipeline.types import FaceRect

WINDOW: Final = (1.9, 1.5, 2.3)
"""What the network looks at: to either side, above and below the face's middle, in face heights."""
ROOM: Final = int(BAND_PX) + 12
"""Canvas pixels around the outline in which something may move: its band, and what the blocks of a lattice reach beyond it."""
LEAST_COVER: Final = 0.9
"""Share of the face that has to lie in its own outline; else the outline is not believed."""


def person_matte(canvas: U8, landmarks: F32, selfie: SelfieSegmenter) -> U8 | None:
    """The presenter's outline.

    Args:
        canvas: uint8 (H, W, 3), RGB.
        landmarks: float32 (468, 2 or 3), canvas pixels.
        selfie: The network.

    Returns:
        uint8 (H, W), 0 background to 255 person, or None where the network does not see the presenter (a statue, a doll).
    """
    points = landmarks[:, :2].astype(np.float64)
    middle, face = (points.min(0) + points.max(0)) / 2, face_height(points)
    height, width = canvas.shape[:2]
    x0, x1 = int(max(middle[0] - WINDOW[0] * face, 0)), int(min(middle[0] + WINDOW[0] * face, width))
    y0, y1 = int(max(middle[1] - WINDOW[1] * face, 0)), int(min(middle[1] + WINDOW[2] * face, height))
    seen = selfie.matte(np.ascontiguousarray(canvas[y0:y1, x0:x1]))
    oval = np.zeros(canvas.shape[:2], np.uint8)
    cv2.fillPoly(oval, [np.round(points[list(topology.FACE_OVAL)]).astype(np.int32)], 1)
    matte = np.zeros(canvas.shape[:2], np.uint8)
    matte[y0:y1, x0:x1] = one_person(seen, (float(middle[0] - x0), float(middle[1] - y0)))
    inside = oval > 0
    if not inside.any() or float((matte[inside] >= SOLID).mean()) < LEAST_COVER:
        return None
    return np.asarray(np.where(inside, 255, matte), dtype=np.uint8)


def face_height(points: F64) -> float:
    """Forehead top to chin, pixels."""
    return float(np.linalg.norm(points[topology.CHIN] - points[topology.FOREHEAD_TOP]))


def moving_rect(matte: U8, landmarks: F32, square: CropSquare) -> FaceRect:
    """The part of the canvas in which anything moves: the face crop, and the person down to where the chest is still.

    Args:
        matte: uint8 (H, W), the canvas's.
        landmarks: float32 (468, 2 or 3), canvas pixels.
        square: The face crop.
    """
    height, width = matte.shape
    points = landmarks[:, :2].astype(np.float64)
    still = float(points[topology.CHIN, 1]) + CHEST_ENDS[1] * face_height(points)
    person = matte[: int(min(max(still, 2.0), height))] >= SOLID
    rows, columns = np.flatnonzero(person.any(axis=1)), np.flatnonzero(person.any(axis=0))
    face = square.rect(width, height)
    left, top, right, bottom = face.x, face.y, face.x + face.w, face.y + face.h
    if len(rows):
        left, right = min(left, int(columns[0]) - ROOM), max(right, int(columns[-1]) + 1 + ROOM)
        top, bottom = min(top, int(rows[0]) - ROOM), max(bottom, int(rows[-1]) + 1 + ROOM)
    left, top = max(left, 0) // 2 * 2, max(top, 0) // 2 * 2
    right, bottom = min(right, width), min(bottom, height)
    return FaceRect(left, top, -(-(right - left) // 2) * 2, -(-(bottom - top) // 2) * 2)
