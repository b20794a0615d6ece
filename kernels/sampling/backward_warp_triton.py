"""Triton body of the backward warp: both sides of a pair with their features in one launch, and the sampler that others share.

A side is channels last, eight channels, so that a tap is one 16-byte load in half precision. Casts: positions and weights in
fp32, taps to fp32. Masks: taps are clamped to the picture, so only the tile's overhang is masked. Offsets fit 32 bits
(checked by the launchers).
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.errors import ShapeError
from kernels.nv12.blocks_triton import device_of
from kernels.triton_launch import launch as run_kernel

BLOCK = 128


@triton.jit
def sample_side(side_ptr, n, x, y, height, width, valid):
    """Eight channels at fractional positions, clamped at the border: fp32 (P, 8) from positions (P,)."""
    x = tl.minimum(tl.maximum(x, 0.0), width - 1.0)
    y = tl.minimum(tl.maximum(y, 0.0), height - 1.0)
    left = tl.floor(x)
    top = tl.floor(y)
    fx = (x - left)[:, None]
    fy = (y - top)[:, None]
    left = left.to(tl.int32)
    top = top.to(tl.int32)
    right = tl.minimum(left + 1, width - 1)
    low = tl.minimum(top + 1, height - 1)
    channel = tl.arange(0, 8)[None, :]
    upper_row = (n * height + top) * width
    lower_row = (n * height + low) * width
    inside = valid[:, None]
    a = tl.load(side_ptr + (upper_row + left)[:, None] * 8 + channel, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(side_ptr + (upper_row + right)[:, None] * 8 + channel, mask=inside, other=0.0).to(tl.float32)
    c = tl.load(side_ptr + (lower_row + left)[:, None] * 8 + channel, mask=inside, other=0.0).to(tl.float32)
    d = tl.load(side_ptr + (lower_row + right)[:, None] * 8 + channel, mask=inside, other=0.0).to(tl.float32)
    above = a + fx * (b - a)
    below = c + fx * (d - c)
    return above + fy * (below - above)


@triton.jit
def pick(values, channel: tl.constexpr):
    """One channel (P,) of (P, 8)."""
    return tl.sum(tl.where(tl.arange(0, 8)[None, :] == channel, values, 0.0), axis=1)


@triton.jit
def _warp_pair_kernel(side0_ptr, side1_ptr, flow_ptr, out0_ptr, out1_ptr, pixels, height, width, BLOCK: tl.constexpr):
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = pixel < pixels
    x = (pixel % width).to(tl.float32)
    row = pixel // width
    y = (row % height).to(tl.float32)
    n = row // height
    flow = flow_ptr + pixel * 4
    first = sample_side(
        side0_ptr,
        n,
        x + tl.load(flow, mask=valid, other=0.0),
        y + tl.load(flow + 1, mask=valid, other=0.0),
        height,
        width,
        valid,
    )
    second = sample_side(
        side1_ptr,
        n,
        x + tl.load(flow + 2, mask=valid, other=0.0),
        y + tl.load(flow + 3, mask=valid, other=0.0),
        height,
        width,
        valid,
    )
    at = pixel[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(out0_ptr + at, first.to(out0_ptr.dtype.element_ty), mask=valid[:, None])
    tl.store(out1_ptr + at, second.to(out1_ptr.dtype.element_ty), mask=valid[:, None])


def warp_pair(side0: torch.Tensor, side1: torch.Tensor, flow: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Warp both sides of a pair.

    Args:
        side0: (n, H, W, 8), contiguous.
        side1: Likewise.
        flow: float32 (n, H, W, 4), contiguous: x, y to side 0, x, y to side 1, in pixels.

    Returns:
        Both sides at p + flow(p), clamped at the border, in their own type.

    Raises:
        ShapeError: Tensors that do not fit, or more values than 32-bit offsets reach.
    """
    if side0.dim() != 4 or side0.shape[3] != 8 or side0.shape != side1.shape or side0.numel() >= 2**31:
        raise ShapeError("side0, side1", f"{tuple(side0.shape)}, {tuple(side1.shape)}", "two equal (n, H, W, 8)")
    if tuple(flow.shape) != (*side0.shape[:3], 4) or flow.dtype != torch.float32:
        raise ShapeError("flow", f"{flow.dtype} {tuple(flow.shape)}", f"float32 {(*side0.shape[:3], 4)}")
    if not (side0.is_contiguous() and side1.is_contiguous() and flow.is_contiguous()):
        raise ShapeError("side0, side1, flow", "strided", "contiguous tensors")
    out0, out1 = torch.empty_like(side0), torch.empty_like(side1)
    n, height, width, _ = side0.shape
    pixels = n * height * width
    with device_of(side0):
        run_kernel(
            _warp_pair_kernel,
            (triton.cdiv(pixels, BLOCK),),
            side0,
            side1,
            flow,
            out0,
            out1,
            pixels,
            height,
            width,
            BLOCK=BLOCK,
        )
    return out0, out1
