"""Triton body of `norm_linear`: a program makes one tile of the output and norms the rows that it reads.

Several programs norm the same rows; that is cheaper than a launch and a trip through memory, because all of it lies in the L2
cache. The partner of a column in its rotary pair is loaded a second time (column index XOR 1) instead of being moved between
lanes. Rows, output columns and k overhang their blocks under masks.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.errors import ShapeError
from kernels.norm_linear import EPS
from kernels.nv12_triton import device_of


@dataclass(frozen=True)
class Tiling:
    """Rows and columns of an output tile, depth of one product, warps and pipeline stages."""

    rows: int
    columns: int
    depth: int = 128
    warps: int = 4
    stages: int = 3


SMALL = Tiling(rows=32, columns=64)
"""Up to `SMALL_ROWS` rows: enough programs for every multiprocessor matter more than reuse."""
LARGE = Tiling(rows=64, columns=128, depth=64, warps=8)
SMALL_ROWS = 640
MIN_COLUMNS = 16
"""The least that a product of tiles takes."""


@triton.jit
def _norm_linear_kernel(
    x_ptr,
    norm_w_ptr,
    norm_b_ptr,
    w_ptr,
    b_ptr,
    cos_ptr,
    sin_ptr,
    out_ptr,
    rows,
    n,
    k,
    length,
    rotated,
    eps,
    ROTATE: tl.constexpr,
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
    position = row % length
    rows_x = x_ptr + row[:, None] * k

    mean = tl.zeros((BM,), dtype=tl.float32)
    before = 0.0
    spread = tl.zeros((BM,), dtype=tl.float32)  # sum of squared distances from the mean, merged part by part
    for start in tl.range(0, k, BLOCK_K):
        at = start + tl.arange(0, BLOCK_K)
        tile = row_in[:, None] & (at < k)[None, :]
        count = tl.minimum(k - start, BLOCK_K) * 1.0
        x = tl.load(rows_x + at[None, :], mask=tile, other=0.0)
        part = tl.sum(x, axis=1) / count
        centred = tl.where(tile, x - part[:, None], 0.0)
        away = part - mean
        share = count / (before + count)
        mean += away * share
        spread += tl.sum(centred * centred, axis=1) + away * away * before * share
        before += count
    scale = 1.0 / tl.sqrt(spread / k + eps)

    turns = row_in & (tl.program_id(0) * BN + tl.zeros_like(row) < rotated)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in tl.range(0, k, BLOCK_K, num_stages=STAGES):
        at = start + tl.arange(0, BLOCK_K)
        k_in = at < k
        tile = row_in[:, None] & k_in[None, :]
        w = tl.load(w_ptr + column[:, None] * k + at[None, :], mask=column_in[:, None] & k_in[None, :], other=0.0)
        x = tl.load(rows_x + at[None, :], mask=tile, other=0.0)
        gain = tl.load(norm_w_ptr + at, mask=k_in, other=0.0)
        offset = tl.load(norm_b_ptr + at, mask=k_in, other=0.0)
        normed = (x - mean[:, None]) * scale[:, None] * gain[None, :] + offset[None, :]
        if ROTATE:
            turned = turns[:, None] & k_in[None, :]
            pair = at ^ 1
            partner = tl.load(rows_x + pair[None, :], mask=turned, other=0.0)
            gain = tl.load(norm_w_ptr + pair, mask=k_in, other=0.0)
            offset = tl.load(norm_b_ptr + pair, mask=k_in, other=0.0)
            partner = (partner - mean[:, None]) * scale[:, None] * gain[None, :] + offset[None, :]
            table = position[:, None] * k + at[None, :]
            cos = tl.load(cos_ptr + table, mask=turned, other=1.0).to(tl.float32)
            sin = tl.load(sin_ptr + table, mask=turned, other=0.0).to(tl.float32)
            normed = normed * cos + partner * sin
        total = tl.dot(normed.to(w.dtype), tl.trans(w), total)
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
    """Launch; arguments as validated by `kernels.norm_linear`.

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
    out = torch.empty((batch, length, n), dtype=weight.dtype, device=x.device)
    cos, sin = tables or (norm_weight, norm_weight)
    with device_of(x):
        _norm_linear_kernel[(triton.cdiv(n, columns), triton.cdiv(rows, tiling.rows))](
            x,
            norm_weight,
            norm_bias,
            weight,
            bias,
            cos,
            sin,
            out,
            rows,
            n,
            k,
            length,
            rotated,
            EPS,
            ROTATE=rotated > 0,
            GELU=gelu,
            BLOCK_K=max(MIN_COLUMNS, min(tiling.depth, triton.next_power_of_2(k))),
            BM=tiling.rows,
            BN=columns,
            STAGES=tiling.stages,
            num_warps=tiling.warps,
        )
    return out
