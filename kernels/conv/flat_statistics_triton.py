"""Triton bodies of instance norm's statistics of flat stacks: blocks of rows, then the blocks of a picture; fp32 throughout."""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.conv.flat_maps import FlatShape
from kernels.conv.instance_norm import Statistics
from kernels.norms import EPS
from kernels.nv12.blocks_triton import device_of
from kernels.triton_launch import launch

ROWS = 256
"""Rows whose statistics one program takes."""
MERGED = 16
"""Channels of a program that merges statistics."""


@triton.jit(do_not_specialize=["height", "width"])
def _statistics_kernel(
    flat_ptr,
    mean_ptr,
    spread_ptr,
    height,
    width,
    CHANNELS: tl.constexpr,
    ROWS: tl.constexpr,
    BM: tl.constexpr,
    BC: tl.constexpr,
):
    """Mean and summed squares around it of ROWS rows, fp32, sums taken around the block's first row."""
    channel = tl.program_id(0) * BC + tl.arange(0, BC)
    block = tl.program_id(1)
    picture = tl.program_id(2)
    there = channel < CHANNELS
    pitch = width + 1
    base = flat_ptr + (picture * (height + 1) * pitch).to(tl.int64) * CHANNELS + channel
    # one pass around a value of the block: around 0, squares would cancel in fp32 where the mean is large against the spread
    pivot = tl.load(base + block * ROWS * CHANNELS, mask=there, other=0.0).to(tl.float32)
    total = tl.zeros((BM, BC), tl.float32)
    squares = tl.zeros((BM, BC), tl.float32)
    for start in tl.static_range(0, ROWS, BM):
        place = block * ROWS + start + tl.arange(0, BM)
        mask = ((place < height * pitch) & (place % pitch < width))[:, None] & there[None, :]
        value = tl.load(base[None, :] + place[:, None] * CHANNELS, mask=mask, other=0.0).to(tl.float32)
        away = tl.where(mask, value - pivot[None, :], 0.0)  # a masked lane read 0 and would count as -pivot
        total += away
        squares += away * away
    last = tl.minimum((block + 1) * ROWS, height * pitch)
    first = block * ROWS
    count = (last - last // pitch - (first - first // pitch)).to(tl.float32)
    shift = tl.sum(total, axis=0) / tl.maximum(count, 1.0)
    spread = tl.maximum(tl.sum(squares, axis=0) - count * shift * shift, 0.0)
    slot = (picture * tl.num_programs(1) + block) * CHANNELS + channel
    tl.store(mean_ptr + slot, pivot + shift, mask=there)
    tl.store(spread_ptr + slot, spread, mask=there)


@triton.jit(do_not_specialize=["height", "width", "tiles", "CHANNELS"])
def _merge_kernel(
    mean_ptr,
    spread_ptr,
    out_mean_ptr,
    out_rstd_ptr,
    height,
    width,
    tiles,
    eps,
    CHANNELS,
    BM: tl.constexpr,
    BC: tl.constexpr,
    TILES: tl.constexpr,
):
    """Means and summed squares of tiles -> mean and 1 / deviation of pictures, around the first tile's mean, in fp32."""
    picture = tl.program_id(1)
    channel = tl.program_id(0) * BC + tl.arange(0, BC)
    there = channel < CHANNELS
    pitch = width + 1
    at = picture * tiles * CHANNELS + channel
    pivot = tl.load(mean_ptr + at, mask=there, other=0.0)
    total = tl.zeros((BC,), tl.float32)
    squares = tl.zeros((BC,), tl.float32)
    for start in range(0, tiles, TILES):
        tile = start + tl.arange(0, TILES)
        first = tile * BM
        last = tl.minimum(first + BM, height * pitch)
        # places of full lines, less the zero row of each line that lies in the tile
        count = (last - last // pitch - (first - first // pitch)).to(tl.float32)[:, None]
        mask = (tile < tiles)[:, None] & there[None, :]
        slot = at[None, :] + tile[:, None] * CHANNELS
        away = tl.load(mean_ptr + slot, mask=mask, other=0.0) - pivot[None, :]
        spread = tl.load(spread_ptr + slot, mask=mask, other=0.0)
        total += tl.sum(tl.where(mask, count * away, 0.0), axis=0)
        squares += tl.sum(tl.where(mask, spread + count * away * away, 0.0), axis=0)
    places = (height * width).to(tl.float32)
    shift = total / places
    variance = tl.maximum(squares / places - shift * shift, 0.0)
    tl.store(out_mean_ptr + picture * CHANNELS + channel, pivot + shift, mask=there)
    tl.store(out_rstd_ptr + picture * CHANNELS + channel, 1.0 / tl.sqrt(variance + eps), mask=there)


def statistics(flat: Tensor, shape: FlatShape) -> Statistics:
    """Launch: what instance norm needs of a flat stack, whose zero rows are zero. The same for a picture whatever the batch."""
    channels = flat.shape[1]
    blocks = triton.cdiv(shape.height * shape.pitch, ROWS)
    means, spreads = (
        torch.empty((shape.batch, blocks, channels), dtype=torch.float32, device=flat.device) for _ in range(2)
    )
    mean, rstd = (torch.empty((shape.batch, channels), dtype=torch.float32, device=flat.device) for _ in range(2))
    with device_of(flat):
        launch(
            _statistics_kernel,
            (triton.cdiv(channels, 64), blocks, shape.batch),
            flat,
            means,
            spreads,
            shape.height,
            shape.width,
            CHANNELS=channels,
            ROWS=ROWS,
            BM=32,
            BC=64,
            num_warps=4,
        )
        launch(
            _merge_kernel,
            (triton.cdiv(channels, MERGED), shape.batch),
            means,
            spreads,
            mean,
            rstd,
            shape.height,
            shape.width,
            blocks,
            EPS,
            channels,
            BM=ROWS,
            BC=MERGED,
            TILES=64,
            num_warps=4,
        )
    return Statistics(mean, rstd)
