"""Triton body of `ddim_project`: one program per tile of the motion; both branches are read and mixed in fp32 on the way in.

Rows, columns and k overhang their blocks under masks.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.lmdm.norm_linear_triton import SMALL_ROWS, Tiling
from kernels.nv12.blocks_triton import device_of

SMALL = Tiling(rows=16, columns=32, depth=128)
LARGE = Tiling(rows=32, columns=64, depth=64)


@triton.jit
def _ddim_project_kernel(
    h_ptr,
    w_ptr,
    b_ptr,
    x_ptr,
    noise_ptr,
    out_ptr,
    noise_item,
    other_branch,
    rows,
    n,
    k,
    length,
    guidance,
    a,
    b,
    c,
    GUIDED: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    STAGES: tl.constexpr,
):
    row = tl.program_id(1) * BM + tl.arange(0, BM)
    column = tl.program_id(0) * BN + tl.arange(0, BN)
    row_in = row < rows
    column_in = column < n
    rows_h = h_ptr + row[:, None] * k
    rows_w = w_ptr + column[:, None] * k
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in tl.range(0, k, BLOCK_K, num_stages=STAGES):
        at = start + tl.arange(0, BLOCK_K)
        k_in = at < k
        tile = row_in[:, None] & k_in[None, :]
        w = tl.load(rows_w + at[None, :], mask=column_in[:, None] & k_in[None, :], other=0.0)
        mixed = tl.load(rows_h + at[None, :], mask=tile, other=0.0)
        if GUIDED:
            unconditional = tl.load(rows_h + other_branch + at[None, :], mask=tile, other=0.0)
            # the projection is linear: mixing what goes in costs one product, mixing what comes out would cost two
            mixed = unconditional + guidance * (mixed - unconditional)
        total = tl.dot(mixed.to(w.dtype), tl.trans(w), total)
    tile = row_in[:, None] & column_in[None, :]
    total += tl.load(b_ptr + column, mask=column_in, other=0.0)[None, :]
    at = row[:, None] * n + column[None, :]
    x = tl.load(x_ptr + at, mask=tile, other=0.0)
    item = (row // length).to(tl.int64)[:, None]
    noise = tl.load(noise_ptr + item * noise_item + (row % length)[:, None] * n + column[None, :], mask=tile, other=0.0)
    tl.store(out_ptr + at, a * total + b * x + c * noise, mask=tile)


def launch(
    h: Tensor,
    weight: Tensor,
    bias: Tensor,
    x: Tensor,
    noise: Tensor,
    update: tuple[float, float, float],
    guidance: float | None,
    tiling: Tiling | None = None,
) -> Tensor:
    """Launch; arguments and result as validated by `kernels.lmdm.ddim_project`; `tiling` None: chosen by the number of rows."""
    batch, length, n = x.shape
    k, rows = h.shape[2], batch * length
    tiling = tiling or (SMALL if rows <= SMALL_ROWS else LARGE)
    out = torch.empty_like(x)
    with device_of(x):
        _ddim_project_kernel[(triton.cdiv(n, tiling.columns), triton.cdiv(rows, tiling.rows))](
            h,
            weight,
            bias,
            x,
            noise,
            out,
            noise.stride(0),
            rows * k,
            rows,
            n,
            k,
            length,
            0.0 if guidance is None else guidance,
            *update,
            GUIDED=guidance is not None,
            BLOCK_K=max(16, min(tiling.depth, triton.next_power_of_2(k))),
            BM=tiling.rows,
            BN=tiling.columns,
            STAGES=tiling.stages,
            num_warps=tiling.warps,
        )
    return out
