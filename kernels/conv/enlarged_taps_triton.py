"""Triton body of `enlarged_taps`.

A program takes BP small places of one line (the zero row at its end included) and all channels. Of the `scale` lines that come from
a small line, the first reads the small line above, the last the one below, and those between are alike; so are the columns. Zero
rows and lines of the products stand for what lies outside; only rows before the first and after the last stack are masked.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.conv.flat_maps import FlatShape
from kernels.nv12.blocks_triton import device_of
from kernels.triton_launch import launch

BLOCK = 8


@triton.jit
def _column(products, row, above, below, tap, rows, mask, COLUMNS: tl.constexpr, CHANNELS: tl.constexpr, channel):
    """The three taps of one kernel column, added: fp32 (BP, CHANNELS). `above` and `below` are the lines of the outer taps."""
    total = tl.zeros((row.shape[0], CHANNELS), tl.float32)
    for part in tl.static_range(3):
        at = row + (above if part == 0 else (below if part == 2 else 0))
        there = mask & (at >= 0) & (at < rows)
        places = at.to(tl.int64)[:, None] * COLUMNS + (tap + 3 * part) * CHANNELS + channel[None, :]
        total += tl.load(products + places, mask=there[:, None], other=0.0).to(tl.float32)
    return total


@triton.jit
def _add_up_kernel(
    products_ptr,
    bias_ptr,
    out_ptr,
    rows,
    height,
    width,
    first,
    COLUMNS: tl.constexpr,
    CHANNELS: tl.constexpr,
    SCALE: tl.constexpr,
    BP: tl.constexpr,
):
    pitch = width + 1
    across = tl.program_id(0) * BP + tl.arange(0, BP)
    line = tl.program_id(1)
    picture = tl.program_id(2)
    channel = tl.arange(0, CHANNELS)
    mask = across < pitch
    row = (picture * (height + 1) + line) * pitch + across
    products = products_ptr + first
    bias = tl.load(bias_ptr + channel)[None, :]
    large_pitch = width * SCALE + 1
    large = picture * (height * SCALE + 1) * large_pitch
    for part in tl.static_range(SCALE):
        above = -pitch if part == 0 else 0
        below = pitch if part == SCALE - 1 else 0
        left = _column(products, row - 1, above, below, 0, rows, mask, COLUMNS, CHANNELS, channel)
        left_here = _column(products, row, above, below, 0, rows, mask, COLUMNS, CHANNELS, channel)
        middle = _column(products, row, above, below, 1, rows, mask, COLUMNS, CHANNELS, channel) + bias
        right_here = _column(products, row, above, below, 2, rows, mask, COLUMNS, CHANNELS, channel)
        right = _column(products, row + 1, above, below, 2, rows, mask, COLUMNS, CHANNELS, channel)
        y = line * SCALE + part
        for place in tl.static_range(SCALE):
            total = middle + (left if place == 0 else left_here) + (right if place == SCALE - 1 else right_here)
            x = across * SCALE + place
            inside = x < tl.where(y < height * SCALE, width * SCALE, 0)
            value = tl.where(inside[:, None], tl.maximum(total, 0.0), 0.0)
            target = (large + y * large_pitch + x).to(tl.int64)[:, None] * CHANNELS + channel[None, :]
            stored = x < tl.where(y <= height * SCALE, large_pitch, 0)
            tl.store(out_ptr + target, value.to(out_ptr.dtype.element_ty), mask=stored[:, None])


def add_up(products: Tensor, bias: Tensor, shape: FlatShape, scale: int, first: int) -> Tensor:
    """Launch; arguments as validated by `kernels.conv.enlarged_taps`."""
    channels = bias.shape[0]
    large = shape.scaled(scale)
    out = torch.empty((large.rows, channels), dtype=products.dtype, device=products.device)
    with device_of(products):
        launch(
            _add_up_kernel,
            (triton.cdiv(shape.pitch, BLOCK), shape.height + 1, shape.batch),
            products,
            bias,
            out,
            shape.rows,
            shape.height,
            shape.width,
            first,
            COLUMNS=products.shape[1],
            CHANNELS=channels,
            SCALE=scale,
            BP=BLOCK,
            num_warps=4,
        )
    return out
