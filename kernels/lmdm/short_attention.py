"""Multi-head attention over at most 128 keys, a few of them shared by the whole batch: one window of LMDM.

    out[i, l, head] = softmax(q k^T / sqrt(d)) v     over the item's own keys, then the shared ones

The shared keys are LMDM's time tokens, which are the same for every session, so that they need no copy per session and step.
`short_attention_torch` is the reference and the CPU path; CUDA tensors take `kernels.lmdm.short_attention_triton`, whose scores and
softmax are fp32.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.errors import ShapeError

MAX_KEYS = 128

Shared = tuple[Tensor, Tensor]
"""Keys and values that every item attends to, each (e, width)."""


def short_attention(q: Tensor, k: Tensor, v: Tensor, heads: int, shared: Shared | None = None) -> Tensor:
    """Attend.

    Args:
        q: (g, length, width); rows may be strided (a slice of a wider projection), the last axis is contiguous.
        k: (g, keys, width), likewise, same type.
        v: As `k`.
        heads: Divides `width`; a head's width is a power of two from 16 on for CUDA tensors.
        shared: Keys and values after those of the item; their last axis contiguous.

    Returns:
        (g, length, width), contiguous, in the type of `q`.

    Raises:
        ShapeError: The tensors do not fit together, or there are more than 128 keys.
    """
    _validate(q, k, v, heads, shared)
    if q.device.type == "cpu":
        return short_attention_torch(q, k, v, heads, shared)
    from kernels.lmdm.short_attention_triton import launch  # here, so that Triton is loaded on a GPU only

    return launch(q, k, v, heads, shared)


def short_attention_torch(q: Tensor, k: Tensor, v: Tensor, heads: int, shared: Shared | None = None) -> Tensor:
    """The formula in torch on any device; arguments and result as in `short_attention`."""
    if shared is not None:
        k, v = (torch.cat([own, more.expand(len(q), -1, -1)], dim=1) for own, more in zip((k, v), shared, strict=True))
    q, k, v = (torch.unflatten(part, -1, (heads, -1)).transpose(1, 2) for part in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2).contiguous()


def _validate(q: Tensor, k: Tensor, v: Tensor, heads: int, shared: Shared | None) -> None:
    for name, part in (("q", q), ("k", k), ("v", v)):
        if part.ndim != 3 or len(part) != len(q) or part.shape[2] != q.shape[2] or part.stride(2) != 1:
            raise ShapeError(name, str(tuple(part.shape)), f"({len(q)}, length, {q.shape[-1]}), last axis contiguous")
    if k.shape != v.shape:
        raise ShapeError("v", str(tuple(v.shape)), str(tuple(k.shape)))
    keys = k.shape[1] + (0 if shared is None else len(shared[0]))
    if not 1 <= keys <= MAX_KEYS:
        raise ShapeError("k", f"{keys} keys", f"1 to {MAX_KEYS}")
    if heads < 1 or q.shape[2] % heads:
        raise ShapeError("heads", str(heads), f"a divisor of {q.shape[2]}")
    if shared is not None and any(part.shape != (len(shared[0]), q.shape[2]) for part in shared):
        raise ShapeError("shared", str([tuple(part.shape) for part in shared]), f"two of (e, {q.shape[2]})")
