"""Triton bodies of `mask_motion` and `sample_features`; sums, softmax and positions in fp32."""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.nv12.blocks_triton import device_of
from kernels.sampling.dense_motion import TAPS, VIEWS
from kernels.sampling.grid_sample_3d_triton import neighbours
from kernels.triton_launch import launch

MASK_BLOCK = 64
SAMPLE_BLOCK = 64


@triton.jit
def _deform_kernel(
    products_ptr,
    bias_ptr,
    source_ptr,
    driving_ptr,
    out_ptr,
    depth,
    height,
    width,
    VIEWS: tl.constexpr,
    LANES: tl.constexpr,
    TAPS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BP: tl.constexpr,
):
    # slices of one block of places run next to each other: they read the same products
    volume_slice = tl.program_id(0)
    item, slice_ = volume_slice // depth, volume_slice % depth
    places = height * width
    place = tl.program_id(1) * BP + tl.arange(0, BP)
    there = place < places
    view = tl.arange(0, LANES)
    real = view < VIEWS
    total = tl.zeros((BP, LANES), tl.float32)
    for tap in tl.static_range(TAPS):
        at = slice_ + tap - TAPS // 2 + place * 0  # a vector of one value, so that it masks like the places
        mask = there & (at >= 0) & (at < depth)
        row = (item * depth + at).to(tl.int64) * places + place
        target = products_ptr + row[:, None] * COLUMNS + tap * VIEWS + view[None, :]
        total += tl.load(target, mask=mask[:, None] & real[None, :], other=0.0).to(tl.float32)
    total += tl.load(bias_ptr + view, mask=real, other=0.0)[None, :]
    total = tl.where(real[None, :], total, -float("inf"))  # lanes past the views get no weight
    weight = tl.exp(total - tl.max(total, axis=1)[:, None])
    weight = weight / tl.sum(weight, axis=1)[:, None]
    moving = real & (view > 0)
    keypoint = (item * (VIEWS - 1) + view - 1) * 3
    row = volume_slice.to(tl.int64) * places + place
    out = out_ptr + row * 3
    for axis in tl.static_range(3):
        move = tl.load(source_ptr + keypoint + axis, mask=moving, other=0.0)
        move -= tl.load(driving_ptr + keypoint + axis, mask=moving, other=0.0)
        moved = tl.sum(weight * move[None, :], axis=1)
        if axis == 0:
            start = (place % width).to(tl.float32) * (2.0 / (width - 1)) - 1.0
        elif axis == 1:
            start = (place // width).to(tl.float32) * (2.0 / (height - 1)) - 1.0
        else:
            start = (slice_ + place * 0).to(tl.float32) * (2.0 / (depth - 1)) - 1.0
        tl.store(out + axis, start + moved, mask=there)


@triton.jit
def _sample_kernel(
    volume_ptr,
    deformation_ptr,
    out_ptr,
    depth,
    height,
    width,
    CHANNELS: tl.constexpr,
    LANES: tl.constexpr,
    BP: tl.constexpr,
):
    """Places of one line and one slice, and the zeros after the line and after the last one."""
    slice_ = tl.program_id(0) % depth
    across = (tl.program_id(0) // depth) * BP + tl.arange(0, BP)
    line = tl.program_id(1)
    item = tl.program_id(2)
    channel = tl.arange(0, LANES)
    there = across < tl.where(line < height, width, 0)
    position = ((item * depth + slice_) * height + line).to(tl.int64) * width + across
    x0, x1, wx0, wx1, inx0, inx1 = neighbours(tl.load(deformation_ptr + position * 3, mask=there, other=-9.0), width)
    y0, y1, wy0, wy1, iny0, iny1 = neighbours(
        tl.load(deformation_ptr + position * 3 + 1, mask=there, other=-9.0), height
    )
    z0, z1, wz0, wz1, inz0, inz1 = neighbours(
        tl.load(deformation_ptr + position * 3 + 2, mask=there, other=-9.0), depth
    )
    volume = volume_ptr + item.to(tl.int64) * depth * height * width * CHANNELS
    total = tl.zeros((BP, LANES), tl.float32)
    for corner in tl.static_range(8):
        row = (z0 if corner < 4 else z1) * height + (y0 if corner % 4 < 2 else y1)
        at = (row * width + (x0 if corner % 2 == 0 else x1)) * CHANNELS
        mask = there & (inz0 if corner < 4 else inz1)
        mask = mask & (iny0 if corner % 4 < 2 else iny1) & (inx0 if corner % 2 == 0 else inx1)
        weight = (wz0 if corner < 4 else wz1) * (wy0 if corner % 4 < 2 else wy1) * (wx0 if corner % 2 == 0 else wx1)
        value = tl.load(
            volume + at[:, None] + channel[None, :], mask=mask[:, None] & (channel < CHANNELS)[None, :], other=0.0
        )
        total += value.to(tl.float32) * weight[:, None]
    row = (item * (height + 1) + line).to(tl.int64) * (width + 1) + across
    target = out_ptr + row[:, None] * (depth * CHANNELS) + slice_ * CHANNELS + channel[None, :]
    kept = (across < width + 1)[:, None] & (channel < CHANNELS)[None, :]
    tl.store(target, total.to(out_ptr.dtype.element_ty), mask=kept)


def deform(products: Tensor, bias: Tensor, kp_source: Tensor, kp_driving: Tensor) -> Tensor:
    """Launch; arguments as validated by `kernels.sampling.mask_motion`."""
    batch, depth, height, width, columns = products.shape
    out = torch.empty((batch, depth, height, width, 3), dtype=torch.float32, device=products.device)
    with device_of(products):
        launch(
            _deform_kernel,
            (batch * depth, triton.cdiv(height * width, MASK_BLOCK)),
            products,
            bias,
            kp_source.float().contiguous(),
            kp_driving.float().contiguous(),
            out,
            depth,
            height,
            width,
            VIEWS=VIEWS,
            LANES=triton.next_power_of_2(VIEWS),
            TAPS=TAPS,
            COLUMNS=columns,
            BP=MASK_BLOCK,
            num_warps=4,
        )
    return out


def sample(volume: Tensor, deformation: Tensor) -> Tensor:
    """Launch; arguments as validated by `kernels.sampling.mask_motion`."""
    batch, depth, height, width, channels = volume.shape
    rows = batch * (height + 1) * (width + 1)
    out = torch.empty((rows, depth * channels), dtype=volume.dtype, device=volume.device)
    with device_of(volume):
        launch(
            _sample_kernel,
            (depth * triton.cdiv(width + 1, SAMPLE_BLOCK), height + 1, batch),
            volume,
            deformation,
            out,
            depth,
            height,
            width,
            CHANNELS=channels,
            LANES=triton.next_power_of_2(channels),
            BP=SAMPLE_BLOCK,
            num_warps=4,
        )
    return out
