"""The rectangle of the face that the networks see and paint, from the 68-point geometry, kept steady over a clip.

Coordinates are canvas pixels, x right, y down; a box is (left, top, right, bottom), the last two excluded.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from kernels.arrays import F32, F64
from kernels.errors import ShapeError

POINTS_68: Final = (
    127, 234, 93, 58, 172, 136, 149, 148, 152, 377, 378, 365, 397, 288, 323, 454, 356,
    70, 63, 105, 66, 107, 336, 296, 334, 293, 300,
    168, 197, 5, 1, 98, 97, 2, 326, 327,
    33, 160, 158, 133, 153, 144, 362, 385, 387, 263, 373, 380,
    61, 39, 37, 0, 267, 269, 291, 405, 314, 17, 84, 181,
    78, 82, 13, 312, 308, 317, 14, 87,
)  # fmt: skip
"""Landmarks of the 468-point mesh that stand for the 68 points: jaw line from the viewer's left to right, brows, nose, eyes, lips.

The four points of the nose's bridge are spread evenly from between the eyes (168) to the tip (1)."""
_BRIDGE: Final = 29
"""The third point of the bridge, where the box is halved: what lies below is painted."""
MARGIN: Final = 10 / 256
"""Below the chin, in heights of the box: the ten pixels of the reference, at the size that its networks see."""
CROP_OVER_BOX: Final = 1.5
_SMOOTH_FRAMES: Final = 2.0
"""Standard deviation of the filter that steadies a box over time."""


class Box(NamedTuple):
    """A rectangle of the canvas in pixels, right and bottom excluded. It may leave the canvas."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        """Width in pixels."""
        return self.right - self.left

    @property
    def height(self) -> int:
        """Height in pixels."""
        return self.bottom - self.top

    def within(self, width: int, height: int) -> Box:
        """The part of it that lies on a canvas."""
        left, right = (min(max(x, 0), width) for x in (self.left, self.right))
        top, bottom = (min(max(y, 0), height) for y in (self.top, self.bottom))
        return Box(left, top, right, bottom)


def points_68(mesh: F32) -> F32:
    """The 68 points of a mesh: float32 (468, 2 or 3) -> (68, 2).

    Raises:
        ShapeError: No mesh of 468 points.
    """
    if mesh.ndim != 2 or mesh.shape[0] != 468 or mesh.shape[1] < 2:
        raise ShapeError("mesh", str(mesh.shape), "(468, 2 or 3)")
    points: F32 = mesh[list(POINTS_68), :2]
    return points


def raw_box(points: F32) -> F64:
    """The box of one frame as it is measured, float64 (4,).

    Its sides touch the outermost points and the lowest one; its top lies as high above the bridge of the nose as its bottom lies
    below, and never above the canvas. A margin goes below the chin, so that the jaw can open.

    Args:
        points: float32 (68, 2).

    Raises:
        ShapeError: Not 68 points.
    """
    if points.shape != (68, 2):
        raise ShapeError("points", str(points.shape), "(68, 2)")
    flat = points.astype(np.float64)
    bottom, middle = flat[:, 1].max(), flat[_BRIDGE, 1]
    top = max(2.0 * middle - bottom, 0.0)
    return np.array([flat[:, 0].min(), top, flat[:, 0].max(), bottom + MARGIN * (bottom - top)])


def steady_boxes(measured: F64, found: NDArray[np.bool_]) -> list[Box]:
    """Boxes of all frames of a clip, of one size, without jitter.

    Frames without a face get a box from their neighbours, so that every frame keeps its index.

    Args:
        measured: float64 (n, 4), from `raw_box`; rows of frames without a face do not matter.
        found: bool (n,), whether the frame shows the face; at least one does.
    """
    frames, seen = np.arange(len(found)), np.flatnonzero(found)
    known = measured[seen]
    width, height = (max(2, round(float(np.median(known[:, 2 + i] - known[:, i])))) for i in (0, 1))
    x = np.interp(frames, seen, (known[:, 0] + known[:, 2]) / 2)
    y = np.interp(frames, seen, (known[:, 1] + known[:, 3]) / 2)
    lefts, tops = (np.rint(_smooth(centre) - side / 2).astype(int) for centre, side in ((x, width), (y, height)))
    return [
        Box(int(a), max(int(b), 0), int(a) + width, max(int(b), 0) + height) for a, b in zip(lefts, tops, strict=True)
    ]


def crop_around(box: Box) -> Box:
    """The square around a box in which masks are made; it may leave the canvas."""
    x, y = (box.left + box.right) // 2, (box.top + box.bottom) // 2
    half = int(max(box.width, box.height) // 2 * CROP_OVER_BOX)
    return Box(x - half, y - half, x + half, y + half)


def _smooth(values: F64) -> F64:
    """A Gaussian over time; the ends see themselves mirrored."""
    if len(values) == 1:
        return values
    smoothed = cv2.GaussianBlur(values[None], (0, 0), _SMOOTH_FRAMES, borderType=cv2.BORDER_REFLECT)
    return np.asarray(smoothed[0], np.float64)
