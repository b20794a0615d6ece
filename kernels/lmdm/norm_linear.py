"""LayerNorm, an optional rotary position code, a linear layer and an optional GELU in one pass: every projection of LMDM.

    n = (x - mean(x)) / sqrt(var(x) + eps) * norm_weight + norm_bias        over the last axis
    r[l] = n[l] * cos[l] + swap(n[l]) * sin[l]                              swap exchanges the members of every pair (2i, 2i + 1)
    y = act(concat(r W[:rotated]^T, n W[rotated:]^T) + bias)

Queries and keys see the rotated input and values the plain one, so one launch makes all three. `norm_linear_torch` is the reference
and the CPU path; CUDA tensors take `kernels.lmdm.norm_linear_triton`, which norms in fp32 and multiplies in the weights' type.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.errors import ShapeError
from kernels.norms import EPS


def norm_linear(
    x: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    tables: tuple[Tensor, Tensor] | None = None,
    rotated: int = 0,
    gelu: bool = False,
) -> Tensor:
    """Norm, rotate, project.

    Args:
        x: float32 (b, length, k), contiguous.
        norm_weight: float32 (k,).
        norm_bias: float32 (k,).
        weight: float32, float16 or bfloat16 (n, k), contiguous.
        bias: float32 (n,).
        tables: Cosine and signed sine, each (at least length, k), needed where `rotated` is not 0.
        rotated: Leading output columns that see the rotated input.
        gelu: Apply the exact (erf) GELU at the end.

    Returns:
        (b, length, n) in the weights' type.

    Raises:
        ShapeError: The tensors do not fit together.
    """
    _validate(x, norm_weight, weight, bias, tables, rotated)
    if x.device.type == "cpu":
        return norm_linear_torch(x, norm_weight, norm_bias, weight, bias, tables=tables, rotated=rotated, gelu=gelu)
    from kernels.lmdm.norm_linear_triton import launch  # here, so that Triton is loaded on a GPU only

    return launch(x, norm_weight, norm_bias, weight, bias, tables, rotated, gelu)


def norm_linear_torch(
    x: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    tables: tuple[Tensor, Tensor] | None = None,
    rotated: int = 0,
    gelu: bool = False,
) -> Tensor:
    """The formula in torch on any device; arguments and result as in `norm_linear`."""
    normed = F.layer_norm(x, norm_weight.shape, norm_weight, norm_bias, EPS)
    offset = bias.to(weight.dtype)
    parts = []
    if rotated and tables is not None:
        cos, sin = (table[: x.shape[-2]].float() for table in tables)
        swapped = torch.unflatten(normed, -1, (-1, 2)).flip(-1).flatten(-2)
        turned = normed * cos + swapped * sin
        parts.append(F.linear(turned.to(weight.dtype), weight[:rotated], offset[:rotated]))
    if rotated < len(weight):
        parts.append(F.linear(normed.to(weight.dtype), weight[rotated:], offset[rotated:]))
    out = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
    return F.gelu(out) if gelu else out


def _validate(
    x: Tensor, norm_weight: Tensor, weight: Tensor, bias: Tensor, tables: tuple[Tensor, Tensor] | None, rotated: int
) -> None:
    if x.ndim != 3 or x.dtype != torch.float32 or not x.is_contiguous():
        raise ShapeError("x", f"{x.dtype} {tuple(x.shape)}", "contiguous float32 (b, length, k)")
    k = x.shape[-1]
    if weight.ndim != 2 or weight.shape[1] != k or bias.shape != weight.shape[:1] or norm_weight.shape != (k,):
        raise ShapeError("weight", f"{tuple(weight.shape)}, bias {tuple(bias.shape)}", f"(n, {k}) and (n,)")
    if not 0 <= rotated <= len(weight):
        raise ShapeError("rotated", str(rotated), f"0 to {len(weight)}")
    if rotated and (tables is None or any(len(t) < x.shape[1] or t.shape[1:] != (k,) for t in tables) or k % 2):
        raise ShapeError("tables", "none, or too small", f"two of (at least {x.shape[1]}, {k}), k even")
