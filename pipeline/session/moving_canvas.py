"""Face crops into a canvas that moves: the frames of a clip, and what lies between them.

Between two frames of a clip the face must not slide on the body: the put-back matrix is interpolated linearly, the background by
the same network as the crop. Body positions lie on a grid of 1/16 frame, so that backgrounds made once can be shown again whenever
the clip comes round (forwards or backwards); matrix and background use the same position.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import torch

from kernels.arrays import F32, U8
from kernels.errors import InvalidInputError
from kernels.nv12.composite import composite_nv12
from kernels.nv12.composite_plan import plan_composite
from pipeline.types import CROP_SIZE, FaceRect

BODY_STEPS: Final = 16
Place = Callable[[int, int], int]
"""Frame of the session, frames of the clip -> the clip's frame that is shown."""
_CORNERS: Final = ((0, 0), (CROP_SIZE - 1, 0), (0, CROP_SIZE - 1), (CROP_SIZE - 1, CROP_SIZE - 1))


@dataclass(frozen=True)
class Body:
    """Where a clip is at a body position.

    Attributes:
        low: Index of the clip's frame with the smaller index.
        high: The other one; equal to `low` on a frame, and where the clip turns round on a frame that it shows twice.
        share: From `low` to `high`, 0..1, a multiple of 1/16.
    """

    low: int
    high: int
    share: Fraction


def body_at(position: Fraction, count: int, place: Place) -> Body:
    """The place in a clip of `count` frames at a position between frames of the session."""
    snapped = Fraction(round(position * BODY_STEPS), BODY_STEPS)
    index = snapped.numerator // snapped.denominator
    share = snapped - index
    before, after = place(index, count), place(index + 1, count)
    if not share or before == after:
        return Body(before, before, Fraction(0))
    return Body(before, after, share) if before < after else Body(after, before, 1 - share)


def matrix_at(matrices: F32, body: Body) -> F32:
    """The put-back matrix float32 (2, 3) at a place, of those of the clip's frames (n, 2, 3)."""
    share = np.float32(float(body.share))
    matrix: F32 = matrices[body.low] * (1 - share) + matrices[body.high] * share
    return matrix


def crop_rect(crop_to_canvas: F32, width: int, height: int) -> FaceRect:
    """The even-aligned rectangle of a canvas that a crop covers.

    Args:
        crop_to_canvas: float32 (2, 3).
        width: Width of the canvas in pixels, even.
        height: Height of the canvas in pixels, even.

    Raises:
        InvalidInputError: The crop lies outside the canvas.
    """
    corners = np.array(_CORNERS, np.float64) @ crop_to_canvas[:, :2].T + crop_to_canvas[:, 2]
    low = np.maximum(np.floor(corners.min(axis=0) / 2.0).astype(int) * 2, 0)
    high = np.minimum(np.ceil((corners.max(axis=0) + 1.0) / 2.0).astype(int) * 2, (width, height))
    if (high - low < 2).any():
        raise InvalidInputError("crop_to_canvas", "a crop outside the canvas", "a crop that lies on the canvas")
    return FaceRect(int(low[0]), int(low[1]), int(high[0] - low[0]), int(high[1] - low[1]))


@dataclass(frozen=True)
class WholePicture:
    """One frame of a clip, whole.

    Attributes:
        y_plane: uint8 (H, W), luma, its own memory.
        uv_plane: uint8 (H / 2, W), interleaved U V, its own memory.
    """

    y_plane: U8
    uv_plane: U8

    def put_back(
        self, crop: torch.Tensor, matrix: F32, mask: F32, background: Callable[[FaceRect], U8], colour: str
    ) -> None:
        """Composite a crop into the picture, in place.

        Args:
            crop: uint8 (1, 512, 512, 3), RGB.
            matrix: float32 (2, 3), crop pixels to canvas pixels.
            mask: float32 (512, 512), of the crop.
            background: Gives the canvas inside a rectangle, uint8 (h, w, 3), RGB.
            colour: Standard of the planes.
        """
        height, width = self.y_plane.shape
        rect = crop_rect(matrix, width, height)
        plan = plan_composite(matrix, mask, background(rect), rect, colour=colour)
        y_face, uv_face = (planes.cpu().numpy() for planes in composite_nv12(crop, plan))
        self.y_plane[rect.y : rect.y + rect.h, rect.x : rect.x + rect.w] = y_face[0]
        self.uv_plane[rect.y // 2 : (rect.y + rect.h) // 2, rect.x : rect.x + rect.w] = uv_face[0]
