"""Triton body of `resize_bilinear_batch`: a program makes ROWS x BLOCK_W output pixels of one picture, channel by channel.

Casts: positions in fp32 (exact to 1/1000 pixel up to 8000 columns); the batch offset in 64 bits. Masks: the tile's overhang;
sources are clamped, never outside.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.nv12.blocks_triton import device_of, to_u8

BLOCK_W, ROWS = 128, 4


@triton.jit
def _corner(index, step, size):
    """Lower neighbour and the upper one's share, of output positions along one axis."""
    position = tl.minimum(tl.maximum((index.to(tl.float32) + 0.5) * step - 0.5, 0.0), size - 1.0)
    below = tl.floor(position)
    return below.to(tl.int32), position - below


@triton.jit
def _resize_kernel(
    source_ptr,
    out_ptr,
    stride_n,
    stride_h,
    stride_w,
    stride_c,
    in_h,
    in_w,
    out_h,
    out_w,
    step_y,
    step_x,
    CHANNELS: tl.constexpr,
    BLOCK_W: tl.constexpr,
    ROWS: tl.constexpr,
):
    item = tl.program_id(2).to(tl.int64)
    x = tl.program_id(0) * BLOCK_W + tl.arange(0, BLOCK_W)[None, :]
    y = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = (x < out_w) & (y < out_h)
    left, fx = _corner(x, step_x, in_w)
    top, fy = _corner(y, step_y, in_h)
    # on the last column and line the share is 0: the clamped neighbour need only be there to be read
    right, low = tl.minimum(left + 1, in_w - 1), tl.minimum(top + 1, in_h - 1)
    source = source_ptr + item * stride_n
    out = out_ptr + (item * out_h * out_w + y * out_w + x) * CHANNELS
    for channel in tl.static_range(CHANNELS):
        plane = source + channel * stride_c
        a = tl.load(plane + top * stride_h + left * stride_w, mask=inside, other=0).to(tl.float32)
        b = tl.load(plane + top * stride_h + right * stride_w, mask=inside, other=0).to(tl.float32)
        c = tl.load(plane + low * stride_h + left * stride_w, mask=inside, other=0).to(tl.float32)
        d = tl.load(plane + low * stride_h + right * stride_w, mask=inside, other=0).to(tl.float32)
        upper, lower = a + fx * (b - a), c + fx * (d - c)
        tl.store(out + channel, to_u8(upper + fy * (lower - upper)), mask=inside)


def resize(pictures: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Launch; arguments as validated by `kernels.sampling.resize_bilinear`, n >= 1.

    Args:
        pictures: uint8 (n, h, w, c), any strides.
        height: Rows of the result.
        width: Columns.

    Returns:
        uint8 (n, height, width, c).
    """
    n, in_h, in_w, channels = pictures.shape
    out = torch.empty((n, height, width, channels), dtype=torch.uint8, device=pictures.device)
    grid = (triton.cdiv(width, BLOCK_W), triton.cdiv(height, ROWS), n)
    with device_of(pictures):
        _resize_kernel[grid](
            pictures,
            out,
            *pictures.stride(),
            in_h,
            in_w,
            height,
            width,
            in_h / height,
            in_w / width,
            CHANNELS=channels,
            BLOCK_W=BLOCK_W,
            ROWS=ROWS,
        )
    return out
