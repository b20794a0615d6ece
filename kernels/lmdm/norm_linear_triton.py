"""Triton bodies of `norm_linear`: rows are normed and rotated once, then a tile of the output is one program's.

One launch that norms the rows of every tile again was slower: at 120 tiles of 32 rows it moves 38 MB through the L2 cache, this way
12 MB. The partner of a column in its rotary pair is loaded a second time (column index XOR 1, an L1 hit) instead of being moved
between lanes. Rows, output columns and k overhang their blocks under masks.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.errors import ShapeError
from kernels.norms import EPS
from kernels.nv12.blocks_triton import device_of


@dataclass(frozen=True)
class Tiling:
    """Rows and columns of an output tile, depth of one product, warps and pipeline stages."""

    rows: int
    columns: int
    depth: int = 128
    warps: int = 4
    stages: int = 3


SMALL = Tiling(rows=32, columns=64, depth=128, warps=4, stages=4)
"""Up to `SMALL_ROWS` rows: enough programs for every multiprocessor matter more than reuse."""
LARGE = Tiling(rows=128, columns=128, depth=64, warps=8, stages=3)
SMALL_ROWS = 640
NORM_ROWS = 2
NORM_WARPS = 4
MIN_COLUMNS = 16
"""The least that a product of tiles takes."""


@triton.jit
def _norm_kernel(
    x_ptr,
    gain_ptr,
    offset_ptr,
    cos_ptr,
    sin_ptr,
    plain_ptr,
    turned_ptr,
    rows,
    k,
    length,
    eps,
    PLAIN: tl.constexpr,
    TURNED: tl.constexpr,
    WHOLE_K: tl.constexpr,
    ROWS: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = tl.arange(0, WHOLE_K)
    k_in = at < k
    tile = (row < rows)[:, None] & k_in[None, :]
    rows_x = x_ptr + row[:, None] * k
    x = tl.load(rows_x + at[None, :], mask=tile, other=0.0)
    mean = tl.sum(x, axis=1) / k
    # the row is in registers, so the variance is taken around the mean; the overhang of k would count as -mean in it
    centred = tl.where(tile, x - mean[:, None], 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=1) / k + eps)
    gain = tl.load(gain_ptr + at, mask=k_in, other=0.0)
    offset = tl.load(offset_ptr + at, mask=k_in, other=0.0)
    normed = centred * scale[:, None] * gain[None, :] + offset[None, :]
    out = row[:, None] * k + at[None, :]
    if PLAIN:
        tl.store(plain_ptr + out, normed.to(plain_ptr.dtype.element_ty), mask=tile)
    if TURNED:
        pair = at ^ 1
        partner = tl.load(rows_x + pair[None, :], mask=tile, other=0.0)
        gain = tl.load(gain_ptr + pair, mask=k_in, other=0.0)
        offset = tl.load(offset_ptr + pair, mask=k_in, other=0.0)
        partner = (partner - mean[:, None]) * scale[:, None] * gain[None, :] + offset[None, :]
        table = (row % length)[:, None] * k + at[None, :]
        cos = tl.load(cos_ptr + table, mask=tile, other=0.0).to(tl.float32)
        sin = tl.load(sin_ptr + table, mask=tile, other=0.0).to(tl.float32)
        turned = normed * cos + partner * sin
        tl.store(turned_ptr + out, turned.to(turned_ptr.dtype.element_ty), mask=tile)


@triton.jit
def _linear_kernel(
    plain_ptr,
    turned_ptr,
    w_ptr,
    b_ptr,
    out_ptr,
    rows,
    n,
    k,
    rotated,
    GELU: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    STAGES: tl.constexpr,
):
    row = tl.program_id(1) * BM + tl.arange(0, BM)
    column = tl.program_id(0) * BN + tl.arange(0, BN)
    row_in = row < rows
    column_in = column < n
    source = plain_ptr  # no tile lies on both sides of `rotated`: `launch` narrows tiles until they divide it
    if tl.program_id(0) * BN < rotated:
        source = turned_ptr
    rows_y = source + row[:, None] * k
    rows_w = w_ptr + column[:, None] * k
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in tl.range(0, k, BLOCK_K, num_stages=STAGES):
        at = start + tl.arange(0, BLOCK_K)
        k_in = at < k
        w = tl.load(rows_w + at[None, :], mask=column_in[:, None] & k_in[None, :], other=0.0)
        y = tl.load(rows_y + at[None, :], mask=row_in[:, None] & k_in[None, :], other=0.0)
        total = tl.dot(y, tl.trans(w), total)
    total += tl.load(b_ptr + column, mask=column_in, other=0.0)[None, :]
    if GELU:
        total = 0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))
    out = out_ptr + row[:, None] * n + column[None, :]
    tl.store(out, total.to(out_ptr.dtype.element_ty), mask=row_in[:, None] & column_in[None, :])


def launch(
    x: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    weight: Tensor,
    bias: Tensor,
    tables: tuple[Tensor, Tensor] | None,
    rotated: int,
    gelu: bool,
    tiling: Tiling | None = None,
) -> Tensor:
    """Launch; arguments as validated by `kernels.lmdm.norm_linear`.

    Args:
        x: float32 (b, length, k).
        norm_weight: float32 (k,).
        norm_bias: float32 (k,).
        weight: (n, k).
        bias: float32 (n,).
        tables: Cosine and signed sine (at least length, k), contiguous.
        rotated: Leading columns that see the rotated input: 0, n or a multiple of 16.
        gelu: Apply GELU.
        tiling: None: chosen by the number of rows.

    Returns:
        (b, length, n) in the weights' type.

    Raises:
        ShapeError: `rotated` is something else.
    """
    batch, length, k = x.shape
    n, rows = len(weight), batch * length
    tiling = tiling or (SMALL if rows <= SMALL_ROWS else LARGE)
    columns = tiling.columns
    while rotated not in (0, n) and rotated % columns:
        columns //= 2
    if columns < MIN_COLUMNS:
        raise ShapeError("rotated", str(rotated), f"0, {n} or a multiple of {MIN_COLUMNS}")
    plain, turned, out = (torch.empty((batch, length, w), dtype=weight.dtype, device=x.device) for w in (k, k, n))
    cos, sin = tables or (norm_weight, norm_weight)
    with device_of(x):
        _norm_kernel[(triton.cdiv(rows, NORM_ROWS),)](
            x,
            norm_weight,
            norm_bias,
            cos,
            sin,
            plain,
            turned,
            rows,
            k,
            length,
            EPS,
            PLAIN=rotated < n,
            TURNED=rotated > 0,
            WHOLE_K=triton.next_power_of_2(k),
            ROWS=NORM_ROWS,
            num_warps=NORM_WARPS,
        )
        _linear_kernel[(triton.cdiv(n, columns), triton.cdiv(rows, tiling.rows))](
            plain,
            turned,
            weight,
            bias,
            out,
            rows,
            n,
            k,
            rotated,
            GELU=gelu,
            BLOCK_K=max(MIN_COLUMNS, min(tiling.depth, triton.next_power_of_2(k))),
            BM=tiling.rows,
            BN=columns,
            STAGES=tiling.stages,
            num_warps=tiling.warps,
        )
    return out
