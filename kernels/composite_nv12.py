"""The tail: a rendered face crop blended into its canvas rectangle and converted to NV12.

Per frame, for every pixel (x, y) of the rectangle, in canvas coordinates with pixel centres at integers::

    (u, v) = inverse(crop_to_canvas) (x, y)             crop coordinates
    fg     = bilinear(crop, u, v)                       clamped at the crop's border
    m      = bilinear(mask, u, v)                       0 outside the crop
    rgb    = round(bg + m (fg - bg))                    fp32, half up
    Y, UV  = nv12(rgb)                                  kernels.rgb_to_nv12

Everything that does not depend on the crop (inverse map, sampled mask, background) is computed once per avatar as a
`CompositePlan`. The rounding of `rgb` makes the result what one would get by building the RGB picture and converting it, so
where the mask is 0 the rectangle equals the converted background byte for byte, and no seam shows at its edge.

`composite_nv12_torch` is the reference on any device; `composite_nv12` runs on the CPU and agrees within 1 level. It gathers the
four neighbours as packed pixels and adds them up with the plan's weights, because OpenCV 4's own warps round coordinates to
1/32 pixel, which costs up to 6 levels on fine texture.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from kernels.colour import ChromaName, ColourMatrix, check_chroma, colour_matrix
from kernels.errors import InvalidInputError, ShapeError
from kernels.rgb_to_nv12 import check_rgb_shape, convert_picture, rgb_to_nv12_torch

F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]
CROP_SIZE = 512
CORNER_OFFSETS = (0, 1, CROP_SIZE, CROP_SIZE + 1)
"""Flat distances in the crop from a pixel to itself, its right, its lower, and its lower right neighbour."""
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
        corner_index: intp (h, w), flat index of each pixel's top-left crop neighbour; the CPU path's gather.
        corner_weights: float32 (4, h, w, 4), bilinear weight times mask of the four neighbours, per channel R G B X.
        background_share: float32 (h, w, 4), background times (1 - mask), per channel R G B X.
        colour: Colour standard of the output, limited range.
        chroma: `mean` or `top_left`.
    """

    canvas_to_crop: NDArray[np.float64]
    mask: F32
    background: F32
    corner_index: NDArray[np.intp]
    corner_weights: F32
    background_share: F32
    colour: ColourMatrix
    chroma: ChromaName

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
        """Memory held, about 92 bytes per pixel of the rectangle."""
        arrays = (self.mask, self.background, self.corner_index, self.corner_weights, self.background_share)
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
    left, top, fx, fy = _corners(canvas_to_crop, rect.h, rect.w)
    shares = np.stack([(1 - fx) * (1 - fy), fx * (1 - fy), (1 - fx) * fy, fx * fy]) * sampled
    background = background_rgb.astype(np.float32)
    kept = np.zeros((rect.h, rect.w, 4), np.float32)
    kept[:, :, :3] = background * (1.0 - sampled[:, :, None])
    return CompositePlan(
        canvas_to_crop=canvas_to_crop,
        mask=sampled,
        background=background,
        corner_index=top * CROP_SIZE + left,
        corner_weights=np.repeat(shares.astype(np.float32)[:, :, :, None], 4, axis=3),
        background_share=kept,
        colour=matrix,
        chroma=rule,
    )


def composite_nv12(crops: U8, plan: CompositePlan) -> tuple[U8, U8]:
    """Blend and convert a batch of crops on the CPU; about 4 ms per 460x460 rectangle on one core.

    Args:
        crops: uint8 (n, 512, 512, 3), RGB; n may be 0.
        plan: Of the avatar that the crops belong to.

    Returns:
        Luma uint8 (n, h, w) and interleaved U V uint8 (n, h / 2, w), limited range.

    Raises:
        ShapeError: Crops of another shape or dtype.
    """
    import cv2  # here, so that importing kernels stays light

    check_crops(tuple(crops.shape), str(crops.dtype))
    n, h, w = len(crops), plan.height, plan.width
    y_planes = np.empty((n, h, w), np.uint8)
    uv_planes = np.empty((n, h // 2, w), np.uint8)
    gathered = np.empty((h, w), np.uint32)
    weighted = np.empty((h, w, 4), np.float32)
    total = np.empty((h, w, 4), np.float32)
    rgbx = np.empty((h, w, 4), np.uint8)
    for i in range(n):
        pixels = cv2.cvtColor(crops[i], cv2.COLOR_RGB2RGBA).view(np.uint32).ravel()
        for corner, (offset, weight) in enumerate(zip(CORNER_OFFSETS, plan.corner_weights, strict=True)):
            np.take(pixels[offset:], plan.corner_index, out=gathered, mode="clip")
            cv2.multiply(gathered.view(np.uint8).reshape(h, w, 4), weight, dst=weighted, dtype=cv2.CV_32F)
            if corner < len(CORNER_OFFSETS) - 1:
                cv2.add(total if corner else plan.background_share, weighted, dst=total)
        cv2.add(total, weighted, dst=rgbx, dtype=cv2.CV_8U)
        convert_picture(rgbx, plan.colour, plan.chroma, y_planes[i], uv_planes[i])
    return y_planes, uv_planes


def composite_nv12_torch(crops: torch.Tensor, plan: CompositePlan) -> tuple[torch.Tensor, torch.Tensor]:
    """The reference: the same tail in fp32 torch on the crops' own device.

    Args:
        crops: uint8 (n, 512, 512, 3), RGB; n may be 0.
        plan: Of the avatar that the crops belong to.

    Returns:
        Luma uint8 (n, h, w) and interleaved U V uint8 (n, h / 2, w), limited range.

    Raises:
        ShapeError: Crops of another shape or dtype.
    """
    check_crops(tuple(crops.shape), str(crops.dtype).removeprefix("torch."))
    device = crops.device
    left, top, right_share, lower_share = _corners(plan.canvas_to_crop, plan.height, plan.width)
    fx = torch.tensor(right_share[..., None], dtype=torch.float32, device=device)
    fy = torch.tensor(lower_share[..., None], dtype=torch.float32, device=device)
    first = torch.tensor(top * CROP_SIZE + left, dtype=torch.int64, device=device)
    pixels = crops.reshape(len(crops), CROP_SIZE * CROP_SIZE, 3)

    def corner(offset: int) -> torch.Tensor:
        return pixels[:, first + offset].to(torch.float32)

    top_left, top_right, low_left, low_right = (corner(offset) for offset in CORNER_OFFSETS)
    upper = torch.lerp(top_left, top_right, fx)
    lower = torch.lerp(low_left, low_right, fx)
    foreground = torch.lerp(upper, lower, fy)
    background = torch.tensor(plan.background, device=device)
    mask = torch.tensor(plan.mask[..., None], device=device)
    rgb = torch.floor(background + mask * (foreground - background) + 0.5).clamp_(0.0, 255.0).to(torch.uint8)
    return rgb_to_nv12_torch(rgb, colour=plan.colour.name, chroma=plan.chroma)


def check_crops(shape: tuple[int, ...], dtype: str) -> None:
    """Refuse what is no batch of face crops.

    Raises:
        ShapeError: Saying what came and what is allowed.
    """
    if len(shape) != 4 or shape[1:] != (CROP_SIZE, CROP_SIZE, 3) or dtype != "uint8":
        raise ShapeError("crops", f"{dtype} {shape}", f"uint8 (n, {CROP_SIZE}, {CROP_SIZE}, 3)")


def _check_rect(rect: Rect) -> None:
    numbers = (rect.x, rect.y, rect.w, rect.h)
    if any(number % 2 for number in numbers) or rect.x < 0 or rect.y < 0 or rect.w < 2 or rect.h < 2:
        raise InvalidInputError("rect", f"x, y, w, h = {numbers}", "even numbers, x and y >= 0, w and h >= 2")


def _invert(crop_to_canvas: NDArray[np.float64], rect: Rect) -> NDArray[np.float64]:
    """Affine from rectangle pixels to crop pixels, float64 (2, 3)."""
    if crop_to_canvas.shape != (2, 3):
        raise ShapeError("crop_to_canvas", f"shape {crop_to_canvas.shape}", "shape (2, 3)")
    if not np.isfinite(crop_to_canvas).all() or abs(np.linalg.det(crop_to_canvas[:, :2])) < MIN_DETERMINANT:
        raise InvalidInputError("crop_to_canvas", "a singular or non-finite matrix", "an invertible affine matrix")
    inverse = np.linalg.inv(crop_to_canvas[:, :2])
    corner = np.array([rect.x, rect.y], np.float64)
    return np.concatenate([inverse, (inverse @ (corner - crop_to_canvas[:, 2]))[:, None]], axis=1)


def _crop_coordinates(
    canvas_to_crop: NDArray[np.float64], h: int, w: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Crop coordinates u, v of every rectangle pixel, each float64 (h, w)."""
    x = np.arange(w, dtype=np.float64)[None, :]
    y = np.arange(h, dtype=np.float64)[:, None]
    a = canvas_to_crop
    return a[0, 0] * x + a[0, 1] * y + a[0, 2], a[1, 0] * x + a[1, 1] * y + a[1, 2]


def _corners(
    canvas_to_crop: NDArray[np.float64], h: int, w: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """Column and row of each pixel's top-left crop neighbour, and the shares of the right and lower ones; (h, w) each."""
    u, v = _crop_coordinates(canvas_to_crop, h, w)
    last = CROP_SIZE - 1
    u, v = np.clip(u, 0.0, last), np.clip(v, 0.0, last)
    left = np.minimum(np.floor(u), last - 1).astype(np.intp)
    top = np.minimum(np.floor(v), last - 1).astype(np.intp)
    return left, top, u - left, v - top


def _sample_mask(mask: F32, canvas_to_crop: NDArray[np.float64], h: int, w: int) -> F32:
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
