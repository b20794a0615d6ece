"""The tail: a rendered face crop blended into its canvas rectangle and converted to NV12.

Per frame, for every pixel (x, y) of the rectangle, in canvas coordinates with pixel centres at integers::

    (u, v) = inverse(crop_to_canvas) (x, y)             crop coordinates
    fg     = bilinear(crop, u, v)                       clamped at the crop's border
    m      = bilinear(mask, u, v)                       0 outside the crop
    rgb    = round(bg + m (fg - bg))                    fp32, half up
    Y, UV  = nv12(rgb)                                  kernels.nv12.from_rgb

Everything that does not depend on the crop (inverse map, sampled mask, background) is computed once per avatar as a
`CompositePlan`. The rounding of `rgb` makes the result what one would get by building the RGB picture and converting it, so
where the mask is 0 the rectangle equals the converted background byte for byte, and no seam shows at its edge.

`composite_nv12_torch` is the reference on any device; `composite_nv12` agrees with it within 1 level: numpy arrays and CPU
tensors by the CPU path, CUDA tensors by one Triton launch (`kernels.nv12.composite_triton`). The CPU path samples with torch,
because OpenCV 4's own warps round coordinates to 1/32 pixel, which costs up to 6 levels on fine texture.
"""

from __future__ import annotations

from typing import overload

import numpy as np
import torch
import torch.nn.functional as F

from kernels.arrays import U8
from kernels.errors import ShapeError
from kernels.nv12.composite_plan import CROP_SIZE, CompositePlan, corners
from kernels.nv12.from_rgb import convert_planes, rgb_to_nv12_torch

CORNER_OFFSETS = (0, 1, CROP_SIZE, CROP_SIZE + 1)
"""Flat distances in the crop from a pixel to itself, its right, its lower, and its lower right neighbour."""


@overload
def composite_nv12(crops: U8, plan: CompositePlan) -> tuple[U8, U8]: ...


@overload
def composite_nv12(crops: torch.Tensor, plan: CompositePlan) -> tuple[torch.Tensor, torch.Tensor]: ...


def composite_nv12(crops: U8 | torch.Tensor, plan: CompositePlan) -> tuple[U8, U8] | tuple[torch.Tensor, torch.Tensor]:
    """Blend and convert a batch of crops; about 1.5 ms per 394x394 rectangle on one CPU core.

    Args:
        crops: uint8 (n, 512, 512, 3), RGB; n may be 0. An array or a tensor; a CUDA tensor is composed on its GPU.
        plan: Plan of the avatar that the crops belong to. Its GPU copy (8 bytes per pixel) is made at the first call and kept.

    Returns:
        Luma uint8 (n, h, w) and interleaved U V uint8 (n, h / 2, w), limited range; arrays or tensors as the crops are.

    Raises:
        ShapeError: Crops of another shape or dtype.
    """
    check_crops(tuple(crops.shape), str(crops.dtype).removeprefix("torch."))
    if not isinstance(crops, torch.Tensor):
        return _composite_cpu(crops, plan)
    if crops.device.type == "cpu":
        y_planes, uv_planes = _composite_cpu(crops.numpy(), plan)
        return torch.from_numpy(y_planes), torch.from_numpy(uv_planes)
    from kernels.nv12.composite_device import plan_on  # here, so that Triton is loaded on a GPU only
    from kernels.nv12.composite_triton import composite

    return composite(crops, plan_on(plan, crops.device))


def _composite_cpu(crops: U8, plan: CompositePlan) -> tuple[U8, U8]:
    import cv2  # here, so that importing kernels stays light

    n, h, w = len(crops), plan.height, plan.width
    y_planes = np.empty((n, h, w), np.uint8)
    uv_planes = np.empty((n, h // 2, w), np.uint8)
    grid = torch.from_numpy(plan.sampling_grid)[None]
    mask, background = torch.from_numpy(plan.mask), torch.from_numpy(plan.background_share)
    for i in range(n):
        pixels = torch.from_numpy(np.stack(cv2.split(crops[i]))).float()[None]
        foreground = F.grid_sample(pixels, grid, mode="bilinear", padding_mode="border", align_corners=False)[0]
        rgb = torch.addcmul(background, foreground, mask).floor_()
        convert_planes(list(rgb.numpy()), plan.colour, plan.chroma, y_planes[i], uv_planes[i])
    return y_planes, uv_planes


def composite_nv12_torch(crops: torch.Tensor, plan: CompositePlan) -> tuple[torch.Tensor, torch.Tensor]:
    """The reference: the same tail in fp32 torch on the crops' own device.

    Args:
        crops: uint8 (n, 512, 512, 3), RGB; n may be 0.
        plan: Plan of the avatar that the crops belong to.

    Returns:
        Luma uint8 (n, h, w) and interleaved U V uint8 (n, h / 2, w), limited range.

    Raises:
        ShapeError: Crops of another shape or dtype.
    """
    check_crops(tuple(crops.shape), str(crops.dtype).removeprefix("torch."))
    device = crops.device
    left, top, right_share, lower_share = corners(plan.canvas_to_crop, plan.height, plan.width)
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
