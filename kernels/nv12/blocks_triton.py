"""Device functions that every NV12 kernel shares: colour equations, rounding, 2x2 chroma blocks.

A tile is handled as two fp32 arrays per channel, (ROWS, BLOCK_W): the even and the odd line of ROWS chroma rows, so that a chroma
sample needs only its own thread's and its neighbour's values and no second pass.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
import triton
import triton.language as tl


@triton.jit
def to_u8(value):
    """Round half up and clamp to 0..255."""
    return tl.minimum(tl.maximum(tl.floor(value + 0.5), 0.0), 255.0).to(tl.uint8)


@triton.jit
def weigh(red, green, blue, kr, kg, kb):
    """Weigh red, green and blue by one row of the colour matrix, without its offset."""
    return kr * red + kg * green + kb * blue


@triton.jit
def block_value(even_line, odd_line, TOP_LEFT: tl.constexpr, ROWS: tl.constexpr, BLOCK_W: tl.constexpr):
    """(ROWS, BLOCK_W / 2): the mean of each 2x2 block, or its top-left value."""
    if TOP_LEFT:
        left, right = tl.split(tl.reshape(even_line, (ROWS, BLOCK_W // 2, 2)))
        return left
    else:
        left, right = tl.split(tl.reshape(even_line + odd_line, (ROWS, BLOCK_W // 2, 2)))
        return (left + right) * 0.25


@triton.jit
def interleave(u, v, ROWS: tl.constexpr, BLOCK_W: tl.constexpr):
    """(ROWS, BLOCK_W): U V U V ... from two (ROWS, BLOCK_W / 2)."""
    return tl.reshape(tl.join(u, v), (ROWS, BLOCK_W))


def device_of(tensor: torch.Tensor) -> AbstractContextManager[object]:
    """Makes the tensor's GPU the current one: Triton launches there, not where its arguments lie."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()


@triton.jit
def byte_pair(low, high):
    """Two values, rounded half up, as one little-endian 16-bit word."""
    return ((low + 0.5).to(tl.int32) | ((high + 0.5).to(tl.int32) << 8)).to(tl.int16)
