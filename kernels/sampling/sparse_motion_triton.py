"""Triton body of `sparse_motion`.

A program takes BP places of one slice and walks the views, two at a time: their eight features leave in one 16-byte store. Grids
are never stored. Positions and sums are fp32.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.nv12.blocks_triton import device_of
from kernels.sampling.dense_motion import CHANNELS, FEATURES, HEAT_FIRST, KEYPOINTS, VARIANCE
from kernels.sampling.grid_sample_3d_triton import neighbours
from kernels.triton_launch import launch

BLOCK = 128
HEATS = 32


@triton.jit
def _distance(keypoint, real, x, y, z):
    """Squared distance of every place to every keypoint, fp32 (BP, HEATS)."""
    # 9 is so far away that its heat is exactly 0, which is what channels without a keypoint hold
    dx = x[:, None] - tl.load(keypoint, mask=real, other=9.0)[None, :]
    dy = y[:, None] - tl.load(keypoint + 1, mask=real, other=9.0)[None, :]
    dz = z[:, None] - tl.load(keypoint + 2, mask=real, other=9.0)[None, :]
    return dx * dx + dy * dy + dz * dz


@triton.jit
def _view(
    volume,
    source_ptr,
    driving_ptr,
    item,
    view,
    x,
    y,
    z,
    there,
    sizes,
    FEATURES: tl.constexpr,
    KEYPOINTS: tl.constexpr,
    BP: tl.constexpr,
):
    """The volume sampled for one view, fp32 (BP, FEATURES)."""
    depth, height, width = sizes
    feature = tl.arange(0, FEATURES)
    keypoint = (item * KEYPOINTS + tl.maximum(view - 1, 0)) * 3
    moves = tl.where(view > 0, 1.0, 0.0)
    dx = moves * (tl.load(source_ptr + keypoint) - tl.load(driving_ptr + keypoint))
    dy = moves * (tl.load(source_ptr + keypoint + 1) - tl.load(driving_ptr + keypoint + 1))
    dz = moves * (tl.load(source_ptr + keypoint + 2) - tl.load(driving_ptr + keypoint + 2))
    x0, x1, wx0, wx1, inx0, inx1 = neighbours(x + dx, width)
    y0, y1, wy0, wy1, iny0, iny1 = neighbours(y + dy, height)
    z0, z1, wz0, wz1, inz0, inz1 = neighbours(z + dz, depth)
    total = tl.zeros((BP, FEATURES), tl.float32)
    for corner in tl.static_range(8):
        line = (z0 if corner < 4 else z1) * height + (y0 if corner % 4 < 2 else y1)
        at = (line * width + (x0 if corner % 2 == 0 else x1)) * FEATURES
        mask = there & (inz0 if corner < 4 else inz1)
        mask = mask & (iny0 if corner % 4 < 2 else iny1) & (inx0 if corner % 2 == 0 else inx1)
        value = tl.load(volume + at[:, None] + feature[None, :], mask=mask[:, None], other=0.0)
        weight = (wz0 if corner < 4 else wz1) * (wy0 if corner % 4 < 2 else wy1)
        total += value.to(tl.float32) * (weight * (wx0 if corner % 2 == 0 else wx1))[:, None]
    return total


@triton.jit
def _sparse_motion_kernel(
    volume_ptr,
    source_ptr,
    driving_ptr,
    out_ptr,
    depth,
    height,
    width,
    falloff,
    FEATURES: tl.constexpr,
    KEYPOINTS: tl.constexpr,
    HEAT_FIRST: tl.constexpr,
    HEATS: tl.constexpr,
    CHANNELS: tl.constexpr,
    BP: tl.constexpr,
):
    slice_ = tl.program_id(1)
    item = slice_ // depth
    place = tl.program_id(0) * BP + tl.arange(0, BP)
    there = place < height * width
    x = (place % width).to(tl.float32) * (2.0 / (width - 1)) - 1.0
    y = (place // width).to(tl.float32) * (2.0 / (height - 1)) - 1.0
    z = (slice_ % depth + place * 0).to(tl.float32) * (2.0 / (depth - 1)) - 1.0
    volume = volume_ptr + item.to(tl.int64) * depth * height * width * FEATURES
    row = slice_.to(tl.int64) * height * width + place
    out = out_ptr + row * CHANNELS
    pair = tl.arange(0, 2 * FEATURES)
    for step in range((KEYPOINTS + 1) // 2):
        sizes = (depth, height, width)
        first = _view(volume, source_ptr, driving_ptr, item, 2 * step, x, y, z, there, sizes, FEATURES, KEYPOINTS, BP)
        second = _view(
            volume, source_ptr, driving_ptr, item, 2 * step + 1, x, y, z, there, sizes, FEATURES, KEYPOINTS, BP
        )
        both = tl.reshape(tl.permute(tl.join(first, second), (0, 2, 1)), (BP, 2 * FEATURES))
        target = out[:, None] + step * 2 * FEATURES + pair[None, :]
        tl.store(target, both.to(out_ptr.dtype.element_ty), mask=there[:, None])
    # heat maps: channel 0 is the background's zero, channels past the keypoints are zeros too
    heat = tl.arange(0, HEATS)
    real = (heat > 0) & (heat <= KEYPOINTS)
    at = (item * KEYPOINTS + heat - 1) * 3
    near = _distance(driving_ptr + at, real, x, y, z)
    far = _distance(source_ptr + at, real, x, y, z)
    value = (tl.exp(near * falloff) - tl.exp(far * falloff)).to(out_ptr.dtype.element_ty)
    kept = there[:, None] & (heat < CHANNELS - HEAT_FIRST)[None, :]
    tl.store(out[:, None] + HEAT_FIRST + heat[None, :], value, mask=kept)


def sample(volume: Tensor, kp_source: Tensor, kp_driving: Tensor, wide: int) -> tuple[Tensor, Tensor]:
    """Launch; arguments as validated by `kernels.sampling.sparse_motion`."""
    batch, depth, height, width, _ = volume.shape
    out = torch.empty((batch, depth, height, width, CHANNELS), dtype=volume.dtype, device=volume.device)
    joined = torch.empty((batch, depth, height, width, wide), dtype=volume.dtype, device=volume.device)
    with device_of(volume):
        launch(
            _sparse_motion_kernel,
            (triton.cdiv(height * width, BLOCK), batch * depth),
            volume,
            kp_source.float().contiguous(),
            kp_driving.float().contiguous(),
            out,
            depth,
            height,
            width,
            -0.5 / VARIANCE,
            FEATURES=FEATURES,
            KEYPOINTS=KEYPOINTS,
            HEAT_FIRST=HEAT_FIRST,
            HEATS=HEATS,
            CHANNELS=CHANNELS,
            BP=BLOCK,
            num_warps=4,
        )
        # eight bytes at a time: a copy of two-byte values between rows of different lengths is several times slower
        joined.view(torch.int64)[..., (wide - CHANNELS) // 4 :].copy_(out.view(torch.int64))
    return out, joined
