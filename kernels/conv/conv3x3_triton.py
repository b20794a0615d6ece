"""Triton body of `conv3x3`: an implicit matrix product, one program makes BM output pixels by BN output channels.

Casts: tiles of the input type, sums in fp32, rounded once at the end. Masks: pixels beyond the picture read 0; the overhang
of a tile in pixels or channels is neither read nor written. Offsets fit 32 bits (checked by `launch`).
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

from typing import Final, NamedTuple

import torch
import triton
import triton.language as tl

from kernels.conv.conv3x3_layout import Conv3x3, Residual, output_shape
from kernels.errors import ShapeError
from kernels.nv12.blocks_triton import device_of
from kernels.triton_launch import launch as run_kernel


class ConvTile(NamedTuple):
    """How a convolution is cut: pixels, output channels and input channels of a step, warps, stages of the pipeline."""

    pixels: int
    outputs: int
    inputs: int
    warps: int
    stages: int


@triton.jit
def _conv3x3_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    slope_ptr,
    residual_ptr,
    out_ptr,
    pixels,
    h,
    w,
    out_h,
    out_w,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    STRIDE: tl.constexpr,
    ORDER: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    I_STEPS: tl.constexpr,
):
    pixel = tl.program_id(0) * BM + tl.arange(0, BM)
    o = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    ox = pixel % out_w
    rest = pixel // out_w
    y = (rest % out_h) * STRIDE - 1
    x = ox * STRIDE - 1
    n = rest // out_h
    base = (n * h + y) * w + x  # may lie before the picture: `inside` keeps such an address from being read
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(0, 9 * I_STEPS):
        tap = step // I_STEPS
        i = (step % I_STEPS) * BK + k
        dy = tap // 3
        dx = tap % 3
        inside = (pixel < pixels) & (y + dy >= 0) & (y + dy < h) & (x + dx >= 0) & (x + dx < w)
        a_at = x_ptr + (base + dy * w + dx)[:, None] * IN + i[None, :]
        a = tl.load(a_at, mask=inside[:, None] & (i < IN)[None, :], other=0.0)
        b_at = weight_ptr + (tap * IN + i)[:, None] * OUT + o[None, :]
        b = tl.load(b_at, mask=(i < IN)[:, None] & (o < OUT)[None, :], other=0.0)
        # ieee: by default float32 tiles would be cut to TF32, which keeps 10 bits of the fraction
        total = tl.dot(a, b, total, input_precision="ieee")
    bias = tl.load(bias_ptr + o, mask=o < OUT, other=0.0)
    slope = tl.load(slope_ptr + o, mask=o < OUT, other=0.0)
    value = total + bias[None, :]
    at = pixel[:, None] * OUT + o[None, :]
    valid = (pixel < pixels)[:, None] & (o < OUT)[None, :]
    if ORDER == 1:
        value += tl.load(residual_ptr + at, mask=valid, other=0.0).to(tl.float32)
    value = tl.where(value > 0, value, value * slope[None, :])
    if ORDER == 2:
        value += tl.load(residual_ptr + at, mask=valid, other=0.0).to(tl.float32)
    tl.store(out_ptr + at, value.to(out_ptr.dtype.element_ty), mask=valid)


_ORDERS = {"none": 0, "before": 1, "after": 2}


_FULL: Final = 60
"""Programs that are enough to prefer a larger tile on 132 multiprocessors, as measured (`benchmarks/kernels/rife_tiling.py`)."""


def choose_tile(pixels: int, inputs: int, outputs: int) -> ConvTile:
    """The largest tile that still gives most multiprocessors work, as measured on an H200."""
    step = next(size for size in (64, 32, 16) if inputs % size == 0 or size == 16)
    if outputs < 64:
        wide = 32 if outputs >= 32 else 16
        return ConvTile(128 if wide == 32 else 64, wide, step, 4, 4 if wide == 32 else 5)
    if outputs % 128 == 0 and pixels >= 128 * 128 * 8:
        return ConvTile(128, 128, min(step, 32), 8, 4)
    for tile_pixels, tile_outputs, enough in (
        (64, 128, 2 * _FULL),
        (128, 64, 2 * _FULL),
        (64, 64, _FULL),
        (64, 32, 30),
    ):
        if tile_outputs == 128 and outputs % 128:
            continue
        if triton.cdiv(pixels, tile_pixels) * triton.cdiv(outputs, tile_outputs) >= enough:
            return ConvTile(tile_pixels, tile_outputs, step, 4, 4 if tile_outputs > 32 else 5)
    return ConvTile(16, 64, step, 4, 5)


def launch(
    x: torch.Tensor, conv: Conv3x3, residual: torch.Tensor | None, order: Residual, tile: ConvTile | None = None
) -> torch.Tensor:
    """Launch; arguments as validated by `kernels.conv.conv3x3`.

    Raises:
        ShapeError: More values than 32-bit offsets reach, or a tensor that is not contiguous.
    """
    shape = output_shape(x, conv)
    out = torch.empty(shape, dtype=x.dtype, device=x.device)
    tensors = (x, conv.weight, out) if residual is None else (x, conv.weight, out, residual)
    if any(tensor.numel() >= 2**31 or not tensor.is_contiguous() for tensor in tensors):
        raise ShapeError("x", str(tuple(x.shape)), "contiguous, fewer than 2**31 values")
    _, inputs, outputs = conv.weight.shape
    pixels = shape[0] * shape[1] * shape[2]
    cut = tile or choose_tile(pixels, inputs, outputs)
    grid = (triton.cdiv(pixels, cut.pixels), triton.cdiv(outputs, cut.outputs))
    with device_of(x):
        run_kernel(
            _conv3x3_kernel,
            grid,
            x,
            conv.weight,
            conv.bias,
            conv.slope,
            residual if residual is not None else x,
            out,
            pixels,
            x.shape[1],
            x.shape[2],
            shape[1],
            shape[2],
            IN=inputs,
            OUT=outputs,
            STRIDE=conv.stride,
            ORDER=_ORDERS[order],
            BM=cut.pixels,
            BN=cut.outputs,
            BK=cut.inputs,
            I_STEPS=triton.cdiv(inputs, cut.inputs),
            num_warps=cut.warps,
            num_stages=cut.stages,
        )
    return out
