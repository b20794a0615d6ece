"""Triton body of `short_attention`: one program per block of queries, head and item; all keys fit in one block.

No running maximum is needed. Keys past the item's own come from the shared ones; keys past both get a score of minus infinity.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.nv12.blocks_triton import device_of

QUERIES = 32
WARPS = 4


@triton.jit
def _short_attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    more_k_ptr,
    more_v_ptr,
    out_ptr,
    q_item,
    q_row,
    k_item,
    k_row,
    v_item,
    v_row,
    more_k_row,
    more_v_row,
    length,
    keys,
    more,
    width,
    scale,
    SHARED: tl.constexpr,
    D: tl.constexpr,
    BQ: tl.constexpr,
    BK: tl.constexpr,
):
    head = tl.program_id(1) * D
    item = tl.program_id(2).to(tl.int64)
    lane = head + tl.arange(0, D)
    row = tl.program_id(0) * BQ + tl.arange(0, BQ)
    key = tl.arange(0, BK)
    own = (key < keys)[:, None]
    k = tl.load(k_ptr + item * k_item + key[:, None] * k_row + lane[None, :], mask=own, other=0.0)
    v = tl.load(v_ptr + item * v_item + key[:, None] * v_row + lane[None, :], mask=own, other=0.0)
    if SHARED:  # each key is read by one of the two loads and is 0 in the other, so a sum joins them
        late = ((key >= keys) & (key < keys + more))[:, None]
        k += tl.load(more_k_ptr + (key - keys)[:, None] * more_k_row + lane[None, :], mask=late, other=0.0)
        v += tl.load(more_v_ptr + (key - keys)[:, None] * more_v_row + lane[None, :], mask=late, other=0.0)
    inside = (row < length)[:, None]
    q = tl.load(q_ptr + item * q_item + row[:, None] * q_row + lane[None, :], mask=inside, other=0.0)
    scores = tl.dot(q, tl.trans(k)) * scale
    scores = tl.where((key < keys + more)[None, :], scores, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    # divided after the product: a value per query and channel, not per query and key
    out = tl.dot(weights.to(v.dtype), v) / tl.sum(weights, axis=1)[:, None]
    at = (item * length + row)[:, None] * width + lane[None, :]
    tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=inside)


def launch(
    q: Tensor, k: Tensor, v: Tensor, heads: int, shared: tuple[Tensor, Tensor] | None, queries: int = QUERIES
) -> Tensor:
    """Launch; arguments and result as validated by `kernels.lmdm.short_attention`; `queries` is a program's block."""
    items, length, width = q.shape
    depth = width // heads
    keys = k.shape[1]
    more_k, more_v = shared or (k, v)
    more = 0 if shared is None else len(more_k)
    out = torch.empty((items, length, width), dtype=q.dtype, device=q.device)
    with device_of(q):
        _short_attention_kernel[(triton.cdiv(length, queries), heads, items)](
            q,
            k,
            v,
            more_k,
            more_v,
            out,
            q.stride(0),
            q.stride(1),
            k.stride(0),
            k.stride(1),
            v.stride(0),
            v.stride(1),
            more_k.stride(-2),
            more_v.stride(-2),
            length,
            keys,
            more,
            width,
            depth**-0.5,
            SHARED=shared is not None,
            D=depth,
            BQ=queries,
            BK=max(16, triton.next_power_of_2(keys + more)),
            num_warps=WARPS,
        )
    return out
