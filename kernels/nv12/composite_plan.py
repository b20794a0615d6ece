"""Everything of the tail that is the same for all frames of an avatar, computed once: see `kernels.nv12.composite`.

Canvas and crop coordinates have pixel centres at integers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kernels.arrays import F32, F64, U8
from kernels.errors import InvalidInputError, ShapeError
from kernels.nv12.colour import ChromaName, ColourMatrix, check_chroma, colour_matrix
from kernels.nv12.from_rgb import check_rgb_shape

CROP_SIZE = 512
MIN_DETERMINANT = 1e-4
"""Below this area scale (one hundredth per side) a crop-to-canvas matrix counts as singular."""


class Rect(Protocol):
    """Even-aligned rectangle in canvas pixels; `pipeline.types.FaceRect` is one."""

    @property
    def x(self) -> int:
        """Left edge."""
        ...

    @property
    def y(self) -> int:
        """Top edge."""
        ...

    @property
    def w(self) -> int:
        """Width."""
        ...

    @property
    def h(self) -> int:
        """Height."""
        ...


@dataclass(frozen=True)
class CompositePlan:
    """What one avatar's tail needs, computed once; treat every array as read-only. Make it with `plan_composite`.

    Attributes:
        canvas_to_crop: float64 (2, 3); maps rectangle pixels (x, y relative to its corner) to crop pixels.
        mask: float32 (h, w), the crop's mask sampled on the rectangle, 0..1.
        background: float32 (h, w, 3), RGB 0..255.
        sampling_grid: float32 (h, w, 2), x and y in the crop, -1..1 from edge to edge (`grid_sample`, corners not aligned).
        background_share: float32 (3, h, w), R G B, background times (1 - mask), and the half that makes a floor round.
        colour: Colour standard of the output, limited range.
        chroma: `mean` or `top_left`.
        on_devices: Copies on GPUs by device name, filled by `kernels.nv12.composite_device.plan_on`; they live as long as the plan.
    """

    canvas_to_crop: F64
    mask: F32
    background: F32
    sampling_grid: F32
    background_share: F32
    colour: ColourMatrix
    chroma: ChromaName
    on_devices: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def height(self) -> int:
        """Rows of the rectangle, even."""
        return int(self.mask.shape[0])

    @property
    def width(self) -> int:
        """Columns of the rectangle, even."""
        return int(self.mask.shape[1])

    @property
    def nbytes(self) -> int:
        """Host memory held, 36 bytes per pixel of the rectangle."""
        arrays = (self.mask, self.background, self.sampling_grid, self.background_share)
        return sum(array.nbytes for array in arrays)


def plan_composite(
    crop_to_canvas: NDArray[np.floating],
    mask: F32,
    background_rgb: U8,
    rect: Rect,
    *,
    colour: str = "bt709",
    chroma: str = "mean",
) -> CompositePlan:
    """Precompute everything that is the same for all frames of an avatar.

    Args:
        crop_to_canvas: float (2, 3), affine from crop pixels (x right, y down) to canvas pixels.
        mask: float32 (512, 512) in crop space, 0..1; 1 = face crop, 0 = background.
        background_rgb: uint8 (h, w, 3), the canvas inside `rect`.
        rect: Where the result lands in the canvas; all four numbers even, x and y >= 0.
        colour: `bt709` or `bt601`, limited range.
        chroma: `mean` (2x2 block) or `top_left`.

    Returns:
        The plan.

    Raises:
        ShapeError: An array has the wrong shape or dtype, or does not fit `rect`.
        InvalidInputError: Odd rectangle, singular or non-finite matrix, mask outside 0..1, unknown colour or chroma rule.
    """
    matrix = colour_matrix(colour)
    rule = check_chroma(chroma)
    _check_rect(rect)
    check_rgb_shape(tuple(background_rgb.shape), str(background_rgb.dtype), "background_rgb")
    if background_rgb.shape != (rect.h, rect.w, 3):
        raise ShapeError(
            "background_rgb", f"shape {background_rgb.shape}", f"shape ({rect.h}, {rect.w}, 3), as `rect` says"
        )
    if mask.shape != (CROP_SIZE, CROP_SIZE) or mask.dtype != np.float32:
        raise ShapeError("mask", f"{mask.dtype} {mask.shape}", f"float32 ({CROP_SIZE}, {CROP_SIZE})")
    if not np.isfinite(mask).all() or mask.min() < 0.0 or mask.max() > 1.0:
        raise InvalidInputError("mask", "values that are not finite or lie outside 0..1", "finite values in 0..1")
    canvas_to_crop = _invert(np.asarray(crop_to_canvas, np.float64), rect)
    sampled = _sample_mask(mask, canvas_to_crop, rect.h, rect.w)
    places = np.stack(_crop_coordinates(canvas_to_crop, rect.h, rect.w), axis=-1).clip(0.0, CROP_SIZE - 1)
    background = background_rgb.astype(np.float32)
    kept = background * (1.0 - sampled[:, :, None]) + 0.5
    return CompositePlan(
        canvas_to_crop=canvas_to_crop,
        mask=sampled,
        background=background,
        sampling_grid=((2.0 * places + 1.0) / CROP_SIZE - 1.0).astype(np.float32),
        background_share=np.ascontiguousarray(kept.transpose(2, 0, 1)),
        colour=matrix,
        chroma=rule,
    )


def _check_rect(rect: Rect) -> None:
    numbers = (rect.x, rect.y, rect.w, rect.h)
    if any(number % 2 for number in numbers) or rect.x < 0 or rect.y < 0 or rect.w < 2 or rect.h < 2:
        raise InvalidInputError("rect", f"x, y, w, h = {numbers}", "even numbers, x and y >= 0, w and h >= 2")


def _invert(crop_to_canvas: F64, rect: Rect) -> F64:
    """Affine from rectangle pixels to crop pixels, float64 (2, 3)."""
    if crop_to_canvas.shape != (2, 3):
        raise ShapeError("crop_to_canvas", f"shape {crop_to_canvas.shape}", "shape (2, 3)")
    if not np.isfinite(crop_to_canvas).all() or abs(np.linalg.det(crop_to_canvas[:, :2])) < MIN_DETERMINANT:
        raise InvalidInputError("crop_to_canvas", "a singular or non-finite matrix", "an invertible affine matrix")
    inverse = np.linalg.inv(crop_to_canvas[:, :2])
    corner = np.array([rect.x, rect.y], np.float64)
    return np.concatenate([inverse, (inverse @ (corner - crop_to_canvas[:, 2]))[:, None]], axis=1)


def _crop_coordinates(canvas_to_crop: F64, h: int, w: int) -> tuple[F64, F64]:
    """Crop coordinates u, v of every rectangle pixel, each float64 (h, w)."""
    x = np.arange(w, dtype=np.float64)[None, :]
    y = np.arange(h, dtype=np.float64)[:, None]
    a = canvas_to_crop
    return a[0, 0] * x + a[0, 1] * y + a[0, 2], a[1, 0] * x + a[1, 1] * y + a[1, 2]


def corners(canvas_to_crop: F64, h: int, w: int) -> tuple[NDArray[np.intp], NDArray[np.intp], F64, F64]:
    """Column and row of each pixel's top-left crop neighbour, and the shares of the right and lower ones; (h, w) each."""
    u, v = _crop_coordinates(canvas_to_crop, h, w)
    last = CROP_SIZE - 1
    u, v = np.clip(u, 0.0, last), np.clip(v, 0.0, last)
    left = np.minimum(np.floor(u), last - 1).astype(np.intp)
    top = np.minimum(np.floor(v), last - 1).astype(np.intp)
    return left, top, u - left, v - top


def _sample_mask(mask: F32, canvas_to_crop: F64, h: int, w: int) -> F32:
    """Bilinear samples of the mask with zeros outside the crop, float32 (h, w)."""
    padded = np.pad(mask.astype(np.float64), 1)
    u, v = _crop_coordinates(canvas_to_crop, h, w)
    u, v = np.clip(u + 1.0, 0.0, CROP_SIZE + 1.0), np.clip(v + 1.0, 0.0, CROP_SIZE + 1.0)
    left = np.minimum(np.floor(u), CROP_SIZE).astype(np.int64)
    top = np.minimum(np.floor(v), CROP_SIZE).astype(np.int64)
    fx, fy = u - left, v - top
    upper = padded[top, left] * (1.0 - fx) + padded[top, left + 1] * fx
    lower = padded[top + 1, left] * (1.0 - fx) + padded[top + 1, left + 1] * fx
    return (upper * (1.0 - fy) + lower * fy).astype(np.float32)
