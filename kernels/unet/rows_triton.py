"""Triton bodies of the operations on rows of channels: `layer_norm`, `gated_gelu`, `add_residual`, all in fp32, and `doubled`.

A program takes whole rows, so that every load is of neighbours; masks cut the overhang of rows and columns. Row offsets are in 64
bits: 64 latents of 32 x 32 with 10240 columns pass 2^31 bytes.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.norms import EPS
from kernels.nv12.blocks_triton import device_of
from kernels.triton_launch import launch

VALUES = 4096
"""Values that a program takes."""


@triton.jit
def _norm_rows_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    offset_ptr,
    out_ptr,
    rows,
    eps,
    COLUMNS: tl.constexpr,
    OFFSET: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK_C)
    inside = column < COLUMNS
    there = (row < rows)[:, None] & inside[None, :]
    at = row.to(tl.int64)[:, None] * COLUMNS + column[None, :]
    value = tl.load(x_ptr + at, mask=there, other=0.0).to(tl.float32)
    if OFFSET:
        value += tl.load(offset_ptr + column, mask=inside, other=0.0)[None, :]
    mean = tl.sum(value, axis=1) / COLUMNS
    # the row is in registers, so the variance is taken around the mean; the overhang would count as -mean in it
    away = tl.where(there, value - mean[:, None], 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(away * away, axis=1) / COLUMNS + eps)
    weight = tl.load(weight_ptr + column, mask=inside, other=0.0)[None, :]
    bias = tl.load(bias_ptr + column, mask=inside, other=0.0)[None, :]
    made = away * scale[:, None] * weight + bias
    tl.store(out_ptr + at, made.to(out_ptr.dtype.element_ty), mask=there)


@triton.jit
def _gate_rows_kernel(wide_ptr, out_ptr, rows, COLUMNS: tl.constexpr, ROWS: tl.constexpr, BLOCK_C: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    there = (row < rows)[:, None] & (column < COLUMNS)[None, :]
    wide = wide_ptr + row.to(tl.int64)[:, None] * (2 * COLUMNS) + column[None, :]
    value = tl.load(wide, mask=there, other=0.0).to(tl.float32)
    gate = tl.load(wide + COLUMNS, mask=there, other=0.0).to(tl.float32)
    made = value * (0.5 * gate * (1.0 + tl.erf(gate * 0.7071067811865476)))
    out = out_ptr + row.to(tl.int64)[:, None] * COLUMNS + column[None, :]
    tl.store(out, made.to(out_ptr.dtype.element_ty), mask=there)


@triton.jit
def _add_rows_kernel(
    x_ptr, residual_ptr, bias_ptr, rows, COLUMNS: tl.constexpr, ROWS: tl.constexpr, BLOCK_C: tl.constexpr
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    there = (row < rows)[:, None] & (column < COLUMNS)[None, :]
    at = row.to(tl.int64)[:, None] * COLUMNS + column[None, :]
    value = tl.load(x_ptr + at, mask=there, other=0.0).to(tl.float32)
    value += tl.load(residual_ptr + at, mask=there, other=0.0).to(tl.float32)
    value += tl.load(bias_ptr + column, mask=column < COLUMNS, other=0.0)[None, :]
    tl.store(x_ptr + at, value.to(x_ptr.dtype.element_ty), mask=there)


@triton.jit
def _double_places_kernel(
    x_ptr, out_ptr, places, width, COLUMNS: tl.constexpr, ROWS: tl.constexpr, BLOCK_C: tl.constexpr
):
    place = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    there = (place < places)[:, None] & (column < COLUMNS)[None, :]
    value = tl.load(x_ptr + place.to(tl.int64)[:, None] * COLUMNS + column[None, :], mask=there, other=0.0)
    # a line of the map becomes two lines of double width: place (line, x) goes to (2 line, 2 x) and its three neighbours
    first = (4 * width * (place // width) + 2 * (place % width)).to(tl.int64)
    out = out_ptr + first[:, None] * COLUMNS + column[None, :]
    tl.store(out, value, mask=there)
    tl.store(out + COLUMNS, value, mask=there)
    tl.store(out + 2 * width * COLUMNS, value, mask=there)
    tl.store(out + (2 * width + 1) * COLUMNS, value, mask=there)


def norm_rows(x: Tensor, weight: Tensor, bias: Tensor, offset: Tensor | None) -> Tensor:
    """Launch; arguments and result as validated by `kernels.unet.layer_norm`."""
    out, columns = torch.empty_like(x), x.shape[-1]
    rows = x.numel() // columns
    block_c = triton.next_power_of_2(columns)
    taken = max(1, VALUES // block_c)
    if rows:
        with device_of(x):
            launch(
                _norm_rows_kernel,
                (triton.cdiv(rows, taken),),
                x,
                weight,
                bias,
                weight if offset is None else offset,
                out,
                rows,
                EPS,
                COLUMNS=columns,
                OFFSET=offset is not None,
                ROWS=taken,
                BLOCK_C=block_c,
                num_warps=4,
            )
    return out


def gate_rows(wide: Tensor) -> Tensor:
    """Launch; argument and result as validated by `kernels.unet.gated_gelu`."""
    columns = wide.shape[-1] // 2
    out = torch.empty((*wide.shape[:-1], columns), dtype=wide.dtype, device=wide.device)
    grid, sizes = _tiles(out)
    if out.numel():
        with device_of(wide):
            launch(_gate_rows_kernel, grid, wide, out, out.numel() // columns, COLUMNS=columns, num_warps=4, **sizes)
    return out


def add_rows(x: Tensor, residual: Tensor, bias: Tensor) -> Tensor:
    """Launch; arguments and result as validated by `kernels.unet.add_residual`."""
    grid, sizes = _tiles(x)
    if x.numel():
        columns = x.shape[-1]
        with device_of(x):
            launch(
                _add_rows_kernel, grid, x, residual, bias, x.numel() // columns, COLUMNS=columns, num_warps=4, **sizes
            )
    return x


def double_places(x: Tensor) -> Tensor:
    """Launch; argument and result as validated by `kernels.unet.doubled`."""
    items, height, width, columns = x.shape
    out = torch.empty((items, 2 * height, 2 * width, columns), dtype=x.dtype, device=x.device)
    if x.numel():
        grid, sizes = _tiles(x)
        with device_of(x):
            launch(
                _double_places_kernel,
                grid,
                x,
                out,
                items * height * width,
                width,
                COLUMNS=columns,
                num_warps=4,
                **sizes,
            )
    return out


def _tiles(out: Tensor) -> tuple[tuple[int, int], dict[str, int]]:
    """Grid and tile of a pass over rows."""
    columns = out.shape[-1]
    block_c = min(1024, triton.next_power_of_2(columns))
    taken = max(1, VALUES // block_c)
    return (triton.cdiv(out.numel() // columns, taken), triton.cdiv(columns, block_c)), {
        "ROWS": taken,
        "BLOCK_C": block_c,
    }
