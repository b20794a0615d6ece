"""Triton body of `grid_sample_3d`.

A program takes BLOCK places of one grid and walks the channels, so that the eight corner offsets and weights are computed once
per place and not once per channel.

Casts: the grid is widened to fp32 before anything is computed from it; sums are fp32 and are narrowed at the store. Masks:
places past the end; corners outside the volume (zero padding). A NaN position compares false everywhere and samples zero.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.nv12.blocks_triton import device_of

BLOCK, WARPS = 256, 4


@triton.jit
def neighbours(coordinate, size):
    """Both neighbours along one axis, their weights, and whether they lie inside."""
    position = ((coordinate + 1.0) * size - 1.0) * 0.5
    # far outside means zero anyway; bounding it keeps the integer conversion defined
    position = tl.where((position > -2.0) & (position < size + 1.0), position, -2.0)
    below = tl.floor(position)
    share = position - below
    low = below.to(tl.int32)
    high = low + 1
    return low, high, 1.0 - share, share, (low >= 0) & (low < size), (high >= 0) & (high < size)


@triton.jit
def _sample_kernel(
    volume_ptr,
    grid_ptr,
    out_ptr,
    places,
    channels,
    stride_n,
    stride_c,
    stride_d,
    stride_h,
    stride_w,
    depth,
    height,
    width,
    grids_per_volume,
    BLOCK: tl.constexpr,
):
    item = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = place < places
    grid = grid_ptr + item * places * 3 + place * 3
    # -9 lies outside the volume, so that lanes past the end read none of its values
    x = tl.load(grid, mask=there, other=-9.0).to(tl.float32)
    y = tl.load(grid + 1, mask=there, other=-9.0).to(tl.float32)
    z = tl.load(grid + 2, mask=there, other=-9.0).to(tl.float32)
    x0, x1, wx0, wx1, inx0, inx1 = neighbours(x, width)
    y0, y1, wy0, wy1, iny0, iny1 = neighbours(y, height)
    z0, z1, wz0, wz1, inz0, inz1 = neighbours(z, depth)
    base = volume_ptr + (item // grids_per_volume) * stride_n
    out = out_ptr + item * channels * places + place
    o00, o01 = z0 * stride_d + y0 * stride_h, z0 * stride_d + y1 * stride_h
    o10, o11 = z1 * stride_d + y0 * stride_h, z1 * stride_d + y1 * stride_h
    m00, m01, m10, m11 = inz0 & iny0, inz0 & iny1, inz1 & iny0, inz1 & iny1
    w00, w01, w10, w11 = wz0 * wy0, wz0 * wy1, wz1 * wy0, wz1 * wy1
    left, right = x0 * stride_w, x1 * stride_w
    for _channel in range(channels):
        total = tl.load(base + o00 + left, mask=m00 & inx0, other=0.0).to(tl.float32) * (w00 * wx0)
        total += tl.load(base + o00 + right, mask=m00 & inx1, other=0.0).to(tl.float32) * (w00 * wx1)
        total += tl.load(base + o01 + left, mask=m01 & inx0, other=0.0).to(tl.float32) * (w01 * wx0)
        total += tl.load(base + o01 + right, mask=m01 & inx1, other=0.0).to(tl.float32) * (w01 * wx1)
        total += tl.load(base + o10 + left, mask=m10 & inx0, other=0.0).to(tl.float32) * (w10 * wx0)
        total += tl.load(base + o10 + right, mask=m10 & inx1, other=0.0).to(tl.float32) * (w10 * wx1)
        total += tl.load(base + o11 + left, mask=m11 & inx0, other=0.0).to(tl.float32) * (w11 * wx0)
        total += tl.load(base + o11 + right, mask=m11 & inx1, other=0.0).to(tl.float32) * (w11 * wx1)
        tl.store(out, total.to(out_ptr.dtype.element_ty), mask=there)
        base += stride_c
        out += places


def sample(volume: torch.Tensor, grid: torch.Tensor, *, block: int = BLOCK, warps: int = WARPS) -> torch.Tensor:
    """Launch; arguments as validated by `kernels.sampling.grid_sample_3d`.

    Args:
        volume: (b, c, d, h, w), any strides.
        grid: (b * k, d', h', w', 3).
        block: Places per program, a power of two.
        warps: Warps per program.

    Returns:
        (b * k, c, d', h', w'), dtype of `volume`.
    """
    dense = grid.contiguous()
    n, out_d, out_h, out_w, _ = grid.shape
    channels, depth, height, width = volume.shape[1:]
    out = torch.empty((n, channels, out_d, out_h, out_w), dtype=volume.dtype, device=volume.device)
    places = out_d * out_h * out_w
    with device_of(volume):
        _sample_kernel[(triton.cdiv(places, block), n)](
            volume,
            dense,
            out,
            places,
            channels,
            *volume.stride(),
            depth,
            height,
            width,
            n // volume.shape[0],
            BLOCK=block,
            num_warps=warps,
        )
    return out
