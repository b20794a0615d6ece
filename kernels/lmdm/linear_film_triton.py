"""Triton body of `linear_film`: one program per tile of the residual stream, which it reads and writes once.

Masks: rows, columns and k overhang their blocks; tiles never overlap, so the update in place is safe.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from kernels.lmdm.norm_linear_triton import SMALL_ROWS, Tiling
from kernels.nv12.blocks_triton import device_of

SMALL = Tiling(rows=32, columns=32, depth=128, stages=4)
LARGE = Tiling(rows=64, columns=64, depth=64, stages=4)


@triton.jit
def _linear_film_kernel(
    h_ptr,
    y_ptr,
    w_ptr,
    b_ptr,
    film_ptr,
    film_item,
    film_part,
    rows,
    y_rows,
    n,
    k,
    length,
    HAS_BIAS: tl.constexpr,
    HAS_FILM: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    STAGES: tl.constexpr,
):
    row = tl.program_id(1) * BM + tl.arange(0, BM)
    column = tl.program_id(0) * BN + tl.arange(0, BN)
    row_in = row < rows
    column_in = column < n
    rows_y = y_ptr + (row % y_rows)[:, None] * k
    rows_w = w_ptr + column[:, None] * k
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in tl.range(0, k, BLOCK_K, num_stages=STAGES):
        at = start + tl.arange(0, BLOCK_K)
        k_in = at < k
        w = tl.load(rows_w + at[None, :], mask=column_in[:, None] & k_in[None, :], other=0.0)
        y = tl.load(rows_y + at[None, :], mask=row_in[:, None] & k_in[None, :], other=0.0)
        # weights lie as (n, k): read along k, neighbouring lanes read neighbouring values, and the product turns the tile
        total = tl.dot(y.to(w.dtype), tl.trans(w), total)
    tile = row_in[:, None] & column_in[None, :]
    stream = h_ptr + row[:, None] * n + column[None, :]
    h = tl.load(stream, mask=tile, other=0.0)
    if HAS_BIAS:
        total += tl.load(b_ptr + column, mask=column_in, other=0.0)[None, :]
    if HAS_FILM:
        factors = film_ptr + (row // length)[:, None] * film_item + column[None, :]
        scale = tl.load(factors, mask=tile, other=0.0).to(tl.float32)
        shift = tl.load(factors + film_part, mask=tile, other=0.0).to(tl.float32)
        total = shift + (1.0 + scale) * total
    tl.store(stream, h + total, mask=tile)


def launch(
    h: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None, film: Tensor | None, tiling: Tiling | None = None
) -> Tensor:
    """Launch; arguments and result as validated by `kernels.lmdm.linear_film`; `tiling` None: chosen by the number of rows."""
    items, length, n = h.shape
    k, rows = y.shape[2], items * length
    tiling = tiling or (SMALL if rows <= SMALL_ROWS else LARGE)
    with device_of(h):
        _linear_film_kernel[(triton.cdiv(n, tiling.columns), triton.cdiv(rows, tiling.rows))](
            h,
            y,
            weight,
            weight if bias is None else bias,
            weight if film is None else film,
            0 if film is None else film.stride(0),
            0 if film is None else film.stride(1),
            rows,
            len(y) * length,
            n,
            k,
            length,
            HAS_BIAS=bias is not None,
            HAS_FILM=film is not None,
            BLOCK_K=max(16, min(tiling.depth, triton.next_power_of_2(k))),
            BM=tiling.rows,
            BN=tiling.columns,
            STAGES=tiling.stages,
            num_warps=tiling.warps,
        )
    return h
