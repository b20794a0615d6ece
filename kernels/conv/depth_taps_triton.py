"""Triton bodies of `depth_taps` and `doubled_depth_taps`: sums along depth in fp32, channels across the lanes."""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.nv12.blocks_triton import device_of
from kernels.triton_launch import launch

ELEMENTS = 2048
"""Places times channels of a program."""


@triton.jit
def _taps(
    products,
    picture,
    slice_,
    depth,
    place,
    mask,
    places,
    first,
    channel,
    COLUMNS: tl.constexpr,
    CHANNELS: tl.constexpr,
    BIAS,
):
    """ReLU of the summed taps, fp32 (BP, BC)."""
    total = tl.zeros((place.shape[0], channel.shape[0]), tl.float32) + BIAS[None, :]
    for tap in tl.static_range(3):
        at = slice_ + tap - 1 + place * 0  # a vector of one value, so that it masks like the places
        row = (picture * depth + at).to(tl.int64) * places + place
        there = mask & (at >= 0) & (at < depth)
        value = tl.load(
            products + row[:, None] * COLUMNS + first + tap * CHANNELS + channel[None, :],
            mask=there[:, None] & (channel < CHANNELS)[None, :],
            other=0.0,
        )
        total += value.to(tl.float32)
    return tl.maximum(total, 0.0)


@triton.jit
def _add_up_kernel(
    products_ptr,
    bias_ptr,
    out_ptr,
    skip_ptr,
    depth,
    height,
    width,
    CHANNELS: tl.constexpr,
    SKIP: tl.constexpr,
    POOL: tl.constexpr,
    BP: tl.constexpr,
    BC: tl.constexpr,
):
    """Height and width are those of the result."""
    place = tl.program_id(0) * BP + tl.arange(0, BP)
    channel = tl.program_id(1) * BC + tl.arange(0, BC)
    volume_slice = tl.program_id(2)
    picture, slice_ = volume_slice // depth, volume_slice % depth
    mask = place < height * width
    bias = tl.load(bias_ptr + channel, mask=channel < CHANNELS, other=0.0)
    if POOL:
        corner = (place // width) * 4 * width + (place % width) * 2
        places = height * width * 4
        value = tl.zeros((BP, BC), tl.float32)
        for part in tl.static_range(4):
            at = corner + (part // 2) * 2 * width + part % 2
            value += _taps(
                products_ptr, picture, slice_, depth, at, mask, places, 0, channel, 3 * CHANNELS, CHANNELS, bias
            )
        value *= 0.25
    else:
        places = height * width
        value = _taps(
            products_ptr, picture, slice_, depth, place, mask, places, 0, channel, 3 * CHANNELS, CHANNELS, bias
        )
    result = value.to(out_ptr.dtype.element_ty)
    row = volume_slice.to(tl.int64) * height * width + place
    kept = mask[:, None] & (channel < CHANNELS)[None, :]
    tl.store(out_ptr + row[:, None] * CHANNELS + channel[None, :], result, mask=kept)
    if SKIP > 0:
        tl.store(skip_ptr + row[:, None] * SKIP + (SKIP - CHANNELS) + channel[None, :], result, mask=kept)


@triton.jit
def _add_up_folded_kernel(
    products_ptr,
    bias_ptr,
    out_ptr,
    depth,
    height,
    width,
    CHANNELS: tl.constexpr,
    FOLD: tl.constexpr,
    BP: tl.constexpr,
    BC: tl.constexpr,
):
    """Each value goes to the places it neighbours; a place at an edge clears what it has no neighbour for."""
    place = tl.program_id(0) * BP + tl.arange(0, BP)
    channel = tl.program_id(1) * BC + tl.arange(0, BC)
    volume_slice = tl.program_id(2)
    picture, slice_ = volume_slice // depth, volume_slice % depth
    places = height * width
    mask = place < places
    bias = tl.load(bias_ptr + channel, mask=channel < CHANNELS, other=0.0)
    value = _taps(
        products_ptr, picture, slice_, depth, place, mask, places, 0, channel, 3 * CHANNELS, CHANNELS, bias
    ).to(out_ptr.dtype.element_ty)
    row = volume_slice.to(tl.int64) * places + place
    x = place % width
    real = (channel < CHANNELS)[None, :]
    for j in tl.static_range(FOLD):
        away = j - FOLD // 2
        target = out_ptr + (row - away)[:, None] * (FOLD * CHANNELS) + j * CHANNELS + channel[None, :]
        tl.store(target, value, mask=(mask & (x - away >= 0) & (x - away < width))[:, None] & real)
        if away != 0:
            edge = out_ptr + row[:, None] * (FOLD * CHANNELS) + j * CHANNELS + channel[None, :]
            outside = mask & ((x + away < 0) | (x + away >= width))
            tl.store(edge, tl.zeros((BP, BC), out_ptr.dtype.element_ty), mask=outside[:, None] & real)


@triton.jit
def _add_up_doubled_kernel(
    products_ptr,
    bias_ptr,
    joined_ptr,
    depth,
    height,
    width,
    CHANNELS: tl.constexpr,
    WIDE: tl.constexpr,
    BP: tl.constexpr,
    BC: tl.constexpr,
):
    """Height and width are the small ones; places count the large ones of one phase."""
    place = tl.program_id(0) * BP + tl.arange(0, BP)
    blocks = tl.cdiv(CHANNELS, BC)
    phase, block = tl.program_id(1) // blocks, tl.program_id(1) % blocks
    channel = block * BC + tl.arange(0, BC)
    volume_slice = tl.program_id(2)
    picture, slice_ = volume_slice // depth, volume_slice % depth
    line, column = phase // 2, phase % 2
    mask = place < height * width
    y, x = place // width, place % width
    bias = tl.load(bias_ptr + channel, mask=channel < CHANNELS, other=0.0)
    at = (y + line) * (width + 1) + x + column
    places = (height + 1) * (width + 1)
    first = phase * 3 * CHANNELS
    value = _taps(products_ptr, picture, slice_, depth, at, mask, places, first, channel, 12 * CHANNELS, CHANNELS, bias)
    row = (volume_slice.to(tl.int64) * 2 * height + 2 * y + line) * 2 * width + 2 * x + column
    kept = mask[:, None] & (channel < CHANNELS)[None, :]
    tl.store(joined_ptr + row[:, None] * WIDE + channel[None, :], value.to(joined_ptr.dtype.element_ty), mask=kept)


def _blocks(places: int, channels: int) -> tuple[int, int]:
    """Places and channels of a program."""
    wide = next((size for size in (128, 64, 32, 16) if channels % size == 0), 128)
    return max(1, min(triton.next_power_of_2(places), ELEMENTS // wide)), wide


def add_up(products: Tensor, bias: Tensor, pool: bool, skip: Tensor | None) -> Tensor:
    """Launch; arguments as validated by `kernels.conv.depth_taps`."""
    batch, depth, height, width, _ = products.shape
    height, width = (height // 2, width // 2) if pool else (height, width)
    channels = bias.shape[0]
    out = torch.empty((batch, depth, height, width, channels), dtype=products.dtype, device=products.device)
    rows, wide = _blocks(height * width, channels)
    with device_of(products):
        launch(
            _add_up_kernel,
            (triton.cdiv(height * width, rows), triton.cdiv(channels, wide), batch * depth),
            products,
            bias,
            out,
            out if skip is None else skip,
            depth,
            height,
            width,
            CHANNELS=channels,
            SKIP=0 if skip is None else skip.shape[4],
            POOL=pool,
            BP=rows,
            BC=wide,
            num_warps=4,
        )
    return out


def add_up_folded(products: Tensor, bias: Tensor, fold: int) -> Tensor:
    """Launch; arguments as validated by `kernels.conv.depth_taps`."""
    batch, depth, height, width, _ = products.shape
    channels = bias.shape[0]
    size = (batch, depth, height, width, fold * channels)
    out = torch.empty(size, dtype=products.dtype, device=products.device)
    rows, wide = _blocks(height * width, channels)
    with device_of(products):
        launch(
            _add_up_folded_kernel,
            (triton.cdiv(height * width, rows), triton.cdiv(channels, wide), batch * depth),
            products,
            bias,
            out,
            depth,
            height,
            width,
            CHANNELS=channels,
            FOLD=fold,
            BP=rows,
            BC=wide,
            num_warps=4,
        )
    return out


def add_up_doubled(products: Tensor, bias: Tensor, joined: Tensor) -> None:
    """Launch; arguments as validated by `kernels.conv.depth_taps`."""
    batch, depth, height, width, _ = products.shape
    channels = bias.shape[0]
    height, width = height - 1, width - 1
    rows, wide = _blocks(height * width, channels)
    with device_of(products):
        launch(
            _add_up_doubled_kernel,
            (triton.cdiv(height * width, rows), 4 * triton.cdiv(channels, wide), batch * depth),
            products,
            bias,
            joined,
            depth,
            height,
            width,
            CHANNELS=channels,
            WIDE=joined.shape[4],
            BP=rows,
            BC=wide,
            num_warps=4,
        )
