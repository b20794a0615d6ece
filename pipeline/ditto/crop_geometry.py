"""The square around a face and the matrices to it and back (ditto.md section 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kernels.arrays import F32, F64
from kernels.errors import ShapeError

MESH_POINTS: Final = 468
_EYES_AND_LIPS: Final[dict[int, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]] = {
    106: ((33, 35, 40, 39), (87, 89, 94, 93), (52, 61)),
    203: ((0, 6, 12, 18), (24, 30, 36, 42), (48, 66)),
    MESH_POINTS: ((33, 159, 133, 145), (362, 386, 263, 374), (61, 291)),
}
"""Landmark count -> indices whose means are the left eye, the right eye and the lips: the eyes' corners and the middles of
their lids, the corners of the mouth."""

_BROWS: Final = (70, 63, 105, 66, 107, 46, 53, 52, 65, 55, 300, 293, 334, 296, 336, 276, 283, 282, 295, 285)
_JAW: Final = (
    127,
    234,
    93,
    132,
    58,
    172,
    136,
    150,
    149,
    176,
    148,
    152,
    377,
    400,
    378,
    379,
    365,
    397,
    288,
    361,
    323,
    454,
    356,
)
MESH_BOX: Final = (*_BROWS, *_JAW)
"""Points of the 468-point mesh that bound what the 106- and 203-point sets bound: jaw line from temple to temple, and brows. The
mesh's forehead is left out, which the others do not have: with it the crop is 9 to 19 % larger and lies 26 to 34 crop pixels
higher (`benchmarks/ditto/crop.py`)."""


@dataclass(frozen=True)
class FaceSquare:
    """A square that may be turned.

    Attributes:
        centre: (2,) in image pixels.
        size: Side in image pixels.
        angle: Radians, clockwise in the picture (y down).
    """

    centre: F64
    size: float
    angle: float


@dataclass(frozen=True)
class CropMatrices:
    """Affine maps, float32 (3, 3), pixel coordinates with x to the right and y down."""

    to_crop: F32
    to_image: F32


def face_square(landmarks: NDArray[np.floating], *, scale: float, shift_down: float) -> FaceSquare:
    """The square of a face.

    Args:
        landmarks: (106, 2), (203, 2) or the mesh's (468, 2), image pixels.
        scale: Side over the longer side of the landmarks' box.
        shift_down: Shift along the face's own vertical, in sides; negative is up.

    Raises:
        ShapeError: Another number of landmarks.
    """
    left, right, lips = eyes_and_lips(landmarks)
    points = landmarks.astype(np.float64)
    outline = points[list(MESH_BOX)] if len(points) == MESH_POINTS else points
    return square_around(outline, left, right, lips, scale=scale, shift_down=shift_down)


def eyes_and_lips(landmarks: NDArray[np.floating]) -> tuple[F64, F64, F64]:
    """Middles of the eye to the left in the picture, of the other one, and of the lips; (2,) each.

    Args:
        landmarks: See `face_square`.

    Raises:
        ShapeError: Another number of landmarks.
    """
    if landmarks.ndim != 2 or len(landmarks) not in _EYES_AND_LIPS:
        raise ShapeError("landmarks", str(landmarks.shape), "(106, 2), (203, 2) or (468, 2)")
    points = landmarks.astype(np.float64)
    left, right, lips = (points[list(group)].mean(axis=0) for group in _EYES_AND_LIPS[len(points)])
    return left, right, lips


def square_around(outline: F64, left: F64, right: F64, lips: F64, *, scale: float, shift_down: float) -> FaceSquare:
    """The square around a face's outline, upright on the line from the middle of the eyes to the lips.

    Args:
        outline: (n, 2), image pixels, n >= 1: what the box is measured on.
        left: (2,), middle of the eye to the left in the picture.
        right: (2,), middle of the other.
        lips: (2,).
        scale: See `face_square`.
        shift_down: See `face_square`.
    """
    down = lips - (left + right) / 2.0
    length = np.linalg.norm(down)
    axis_y = down / length if length > 1e-3 else np.array([0.0, 1.0])
    axis_x = np.array([axis_y[1], -axis_y[0]])
    angle = float(np.arccos(np.clip(axis_x[0], -1.0, 1.0)))
    angle = -angle if axis_x[1] < 0 else angle
    axes = np.stack([axis_x, axis_y])
    mean = outline.mean(axis=0)
    along = (outline - mean) @ axes.T
    low, high = along.min(axis=0), along.max(axis=0)
    size = float((high - low).max()) * scale
    centre = mean + ((low + high) / 2.0) @ axes + axis_y * (shift_down * size)
    return FaceSquare(centre, size, angle)


def crop_matrices(square: FaceSquare, side: int, *, turn: bool = True) -> CropMatrices:
    """Maps between the image and a crop of `side` pixels.

    Args:
        square: From `face_square`.
        side: Side of the crop in pixels.
        turn: Whether the crop is turned upright.
    """
    zoom = side / square.size
    angle = square.angle if turn else 0.0
    cos, sin = np.cos(angle) * zoom, np.sin(angle) * zoom
    rotation = np.array([[cos, sin], [-sin, cos]])
    offset = np.array([side / 2.0, side / 2.0]) - rotation @ square.centre
    to_crop = np.eye(3, dtype=np.float32)
    to_crop[:2, :2], to_crop[:2, 2] = rotation, offset
    return CropMatrices(to_crop, np.linalg.inv(to_crop).astype(np.float32))


def transform_points(points: NDArray[np.floating], matrix: F32) -> F32:
    """Points (n, 2) through an affine (3, 3)."""
    moved: F32 = (points @ matrix[:2, :2].T + matrix[:2, 2]).astype(np.float32)
    return moved
