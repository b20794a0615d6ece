"""A `CompositePlan` on a GPU, and where its result goes: what one launch of the tail needs per picture.

A launch handles pictures of several avatars at once, so everything that differs between them travels in two small device tables
instead of kernel arguments. A captured CUDA graph then serves any mix of sessions: only table rows change.

    addresses  int64 (n, 8)    background, mask, luma out, chroma out (addresses); luma and chroma row stride (bytes); width, height
    affine     float32 (n, 8)  u = a0 x + a1 y + a2, v = a3 x + a4 y + a5 (rectangle pixel -> crop pixel), two unused

A row of width 0 draws nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from kernels.errors import InvalidInputError
from kernels.nv12.composite_plan import CompositePlan
from kernels.nv12.splice import check_canvas

ROW = 8
"""Columns of either table."""


@dataclass(frozen=True, eq=False)
class DevicePlan:
    """An avatar's plan on a device; equal only to itself. Keep it alive while launches that use it run.

    Attributes:
        plan: What it was made of.
        background: int32 (h, w), R + 256 G + 65536 B: one load per pixel.
        mask: float32 (h, w), 0..1.
        addresses: int64 (8,), the plan's table row without outputs.
        affine: float32 (8,), likewise.
    """

    plan: CompositePlan
    background: torch.Tensor
    mask: torch.Tensor
    addresses: torch.Tensor
    affine: torch.Tensor

    @property
    def nbytes(self) -> int:
        """Device memory held: 8 bytes per pixel of the rectangle."""
        return self.background.nbytes + self.mask.nbytes


@dataclass(frozen=True, eq=False)
class CompositeTarget:
    """Equal only to itself: one session's avatar and the NV12 canvas that its pictures are written into, at fixed addresses.

    Attributes:
        plan: The avatar.
        canvas: uint8 (1, H * 3 / 2, W), the session's own; holds the still picture outside the rectangle.
        addresses: int64 (8,), this target's table row.
    """

    plan: DevicePlan
    canvas: torch.Tensor
    addresses: torch.Tensor


def upload_plan(plan: CompositePlan, device: torch.device | str) -> DevicePlan:
    """Copy what the GPU needs of a plan.

    Args:
        plan: Plan of one avatar.
        device: Where to.
    """
    channels = plan.background.astype(np.int32)
    packed = channels[..., 0] | channels[..., 1] << 8 | channels[..., 2] << 16
    background, mask = torch.tensor(packed, device=device), torch.tensor(plan.mask, device=device)
    numbers = [background.data_ptr(), mask.data_ptr(), 0, 0, 0, 0, plan.width, plan.height]
    affine = [*(float(value) for value in plan.canvas_to_crop.ravel()), 0.0, 0.0]
    return DevicePlan(
        plan=plan,
        background=background,
        mask=mask,
        addresses=torch.tensor(numbers, dtype=torch.int64, device=device),
        affine=torch.tensor(affine, dtype=torch.float32, device=device),
    )


def plan_on(plan: CompositePlan, device: torch.device) -> DevicePlan:
    """The plan's copy on a device, made at the first call."""
    kept = plan.on_devices.get(str(device))
    if not isinstance(kept, DevicePlan):
        kept = upload_plan(plan, device)
        plan.on_devices[str(device)] = kept
    return kept


def make_target(plan: DevicePlan, canvas: torch.Tensor, x: int, y: int) -> CompositeTarget:
    """Bind a plan to a place in a canvas.

    Args:
        plan: The avatar on the device of `canvas`.
        canvas: uint8 (1, H * 3 / 2, W), NV12, kept by reference and written by every launch.
        x: Left edge of the rectangle, even.
        y: Top edge, even.

    Raises:
        ShapeError: No NV12 canvas.
        InvalidInputError: The rectangle is odd or leaves the canvas, the canvas has odd rows, or the plan lies on another device.
    """
    check_canvas(canvas, 1)
    w, h = plan.plan.width, plan.plan.height
    height, width = canvas.shape[1] // 3 * 2, canvas.shape[2]
    if x % 2 or y % 2 or x < 0 or y < 0 or x + w > width or y + h > height:
        raise InvalidInputError("x, y", f"{w}x{h} at {x},{y}", f"an even place inside {width}x{height}")
    if canvas.data_ptr() % 2 or canvas.stride(1) % 2:
        raise InvalidInputError("canvas", "rows at odd addresses", "rows at even addresses: values leave in pairs")
    if plan.mask.device != canvas.device:
        raise InvalidInputError("plan", f"on {plan.mask.device}", f"on {canvas.device}, as the canvas")
    stride = canvas.stride(1)
    luma = canvas.data_ptr() + y * stride + x
    chroma = canvas.data_ptr() + (height + y // 2) * stride + x
    addresses = plan.addresses.clone()
    addresses[2:6] = torch.tensor([luma, chroma, stride, stride], dtype=torch.int64)
    return CompositeTarget(plan, canvas, addresses)
