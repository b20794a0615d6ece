"""Geometry of registration: the canvas, the square face crop, its affine, its rectangle and its mask. Needs cv2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np

from kernels.arrays import F32, U8
from pipeline.types import CROP_SIZE, FaceRect

CANVAS_LONG: Final = 1920
CANVAS_SHORT: Final = 1080
CROP_OVER_FACE: Final = 1.6
"""Side of the crop in face heights: forehead, chin, and a border in which motion fades out. A wider crop would be sampled
coarser than the default canvas shows it (345 px of face: 1.07 canvas pixels per crop pixel at 1.6, 1.34 at 2.0)."""
CROP_SHIFT_UP: Final = 0.05
"""How far the crop's centre lies above the face's, in face heights: hair needs more room than the neck."""
FACE_HEIGHT_OVER_WIDTH: Final = 1.2
"""A face is taken to be at least this much higher than wide, so that a nodding head gets no smaller crop."""
MASK_BORDER: Final = 1
MASK_FEATHER: Final = 44
"""Crop pixels over which the mask rises from its zero border to 1."""
_FOREHEAD, _CHIN = 10, 152
_SIDE_RIGHT, _SIDE_LEFT = 234, 454


@dataclass(frozen=True)
class CropSquare:
    """An axis-aligned square of the canvas with even corners; it may run over the canvas's edge.

    Attributes:
        x: Left edge, canvas pixels (pixel edges at integers), even, may be negative.
        y: Top edge, likewise.
        side: Even.
    """

    x: int
    y: int
    side: int

    @property
    def scale(self) -> float:
        """Canvas pixels per crop pixel."""
        return self.side / CROP_SIZE

    def to_canvas(self) -> F32:
        """float32 (2, 3): crop pixels to canvas pixels, pixel centres at integers in both."""
        half = (self.scale - 1) / 2
        return np.array([[self.scale, 0, self.x + half], [0, self.scale, self.y + half]], dtype=np.float32)

    def to_crop(self, points: F32) -> F32:
        """Canvas points float32 (n, 3) to crop pixels; z is scaled along."""
        crop = (points + 0.5 - (self.x, self.y, 0.5)) / self.scale
        crop[:, :2] -= 0.5
        return crop.astype(np.float32)

    def rect(self, width: int, height: int) -> FaceRect:
        """The part of the square on a canvas of even sides; even-aligned."""
        left, top = max(self.x, 0), max(self.y, 0)
        right, bottom = min(self.x + self.side, width), min(self.y + self.side, height)
        return FaceRect(left, top, right - left, bottom - top)


def fit_canvas(rgb: U8) -> U8:
    """The picture fitted into 1080x1920 (or 1920x1080 when it is wider than high): scaled down only, both sides made even.

    An odd last row or column is cut off when nothing needs scaling.

    Args:
        rgb: uint8 (H, W, 3), both sides at least 2.

    Returns:
        uint8 (h, w, 3), h and w even, C-contiguous.
    """
    height, width = rgb.shape[:2]
    limit_w, limit_h = (CANVAS_LONG, CANVAS_SHORT) if width > height else (CANVAS_SHORT, CANVAS_LONG)
    ratio = min(1.0, limit_w / width, limit_h / height)
    if ratio == 1.0:
        return np.ascontiguousarray(rgb[: height // 2 * 2, : width // 2 * 2])
    size = (max(2, round(width * ratio / 2) * 2), max(2, round(height * ratio / 2) * 2))
    return cv2.resize(rgb, size, interpolation=cv2.INTER_AREA).astype(np.uint8, copy=False)


def crop_square(landmarks: F32) -> CropSquare:
    """Where the face crop lies.

    Args:
        landmarks: float32 (468, 2 or 3), canvas pixels.
    """
    flat = landmarks[:, :2].astype(np.float64)
    height = float(np.linalg.norm(flat[_CHIN] - flat[_FOREHEAD]))
    width = float(np.linalg.norm(flat[_SIDE_LEFT] - flat[_SIDE_RIGHT]))
    face = max(height, FACE_HEIGHT_OVER_WIDTH * width)
    centre = (flat.min(axis=0) + flat.max(axis=0)) / 2 - (0.0, CROP_SHIFT_UP * face)
    side = max(2, round(CROP_OVER_FACE * face / 2) * 2)
    x, y = (round((middle - side / 2) / 2) * 2 for middle in centre)
    return CropSquare(int(x), int(y), side)


def cut_square(canvas: U8, square: CropSquare) -> U8:
    """The square as uint8 (side, side, 3); outside the canvas its edge pixels are repeated."""
    height, width = canvas.shape[:2]
    left, top = max(square.x, 0), max(square.y, 0)
    right, bottom = min(square.x + square.side, width), min(square.y + square.side, height)
    pads = (top - square.y, square.y + square.side - bottom, left - square.x, square.x + square.side - right)
    part = cv2.copyMakeBorder(canvas[top:bottom, left:right], *pads, cv2.BORDER_REPLICATE)
    return np.asarray(part, dtype=np.uint8)


def cut_crop(canvas: U8, square: CropSquare) -> U8:
    """The square as uint8 (512, 512, 3); outside the canvas its edge pixels are repeated."""
    part = cut_square(canvas, square)
    method = cv2.INTER_AREA if square.side > CROP_SIZE else cv2.INTER_CUBIC
    return cv2.resize(part, (CROP_SIZE, CROP_SIZE), interpolation=method).astype(np.uint8, copy=False)


def square_of(crop_to_canvas: F32) -> CropSquare:
    """The square whose `to_canvas` is the matrix."""
    scale = float(crop_to_canvas[0, 0])
    corner = crop_to_canvas[:, 2].astype(np.float64) - (scale - 1) / 2
    x, y = (round(float(edge)) for edge in corner)
    return CropSquare(x, y, round(scale * CROP_SIZE))


def soft_mask(border: int = MASK_BORDER) -> F32:
    """float32 (512, 512): 0 on the border, 1 inside, a smooth step (3t^2 - 2t^3) of `MASK_FEATHER` pixels between.

    Args:
        border: Pixels along the border that are 0, at least 1.
    """
    index = np.arange(CROP_SIZE, dtype=np.float32)
    distance = np.minimum(index, CROP_SIZE - 1 - index) - (border - 1)
    t = np.clip(distance / MASK_FEATHER, 0.0, 1.0)
    ramp = t * t * (3.0 - 2.0 * t)
    return np.outer(ramp, ramp).astype(np.float32)
