"""Multi-head attention as LMDM uses it: rotary position code on the whole model width, *before* the projections.

Source of the formula: Ditto's LMDM (`ditto.md` section 2.6). Parameter names equal `torch.nn.MultiheadAttention`'s.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Rotary(nn.Module):
    """Rotary position code over interleaved pairs (2i, 2i + 1), angle = position * theta^(-2i / width).

    Args:
        width: Model width, even.
        theta: Base of the geometric series of frequencies.
    """

    freqs: Tensor

    def __init__(self, width: int, theta: float = 10_000.0) -> None:
        super().__init__()
        self.register_buffer("freqs", theta ** (-torch.arange(0, width, 2, dtype=torch.float32) / width))

    def tables(self, length: int) -> tuple[Tensor, Tensor]:
        """Cosine and signed sine for positions 0..length-1, each (length, width).

        `rotate(x) = x * cos + swap(x) * sin` where `swap` exchanges the two members of every pair.
        """
        positions = torch.arange(length, dtype=torch.float32, device=self.freqs.device)
        angles = (positions[:, None] * self.freqs.float()).repeat_interleave(2, dim=-1)
        sign = torch.ones_like(angles)
        sign[:, 0::2] = -1.0
        return angles.cos(), angles.sin() * sign

    def rotate(self, x: Tensor, tables: tuple[Tensor, Tensor]) -> Tensor:
        """Rotate x (..., length, width) by its positions."""
        cos, sin = tables
        swapped = torch.unflatten(x, -1, (-1, 2)).flip(-1).flatten(-2)
        return x * cos.to(x.dtype) + swapped * sin.to(x.dtype)


class Attention(nn.Module):
    """Multi-head attention whose key/value work can be done ahead of time.

    Args:
        width: Model width.
        heads: Number of heads; divides `width`.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"width {width} is not a multiple of {heads} heads")
        self.width = width
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * width))
        self.out_proj = nn.Linear(width, width)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)

    def _split(self, x: Tensor) -> Tensor:
        return torch.unflatten(x, -1, (self.heads, -1)).transpose(-2, -3)

    def keys_values(self, rotated: Tensor, plain: Tensor) -> tuple[Tensor, Tensor]:
        """Keys of `rotated` and values of `plain`, both (..., length, width) -> (..., heads, length, width / heads)."""
        w = self.width
        keys = F.linear(rotated, self.in_proj_weight[w : 2 * w], self.in_proj_bias[w : 2 * w])
        values = F.linear(plain, self.in_proj_weight[2 * w :], self.in_proj_bias[2 * w :])
        return self._split(keys), self._split(values)

    def attend(self, rotated: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attend from `rotated` (..., length, width) to keys and values made by `keys_values`."""
        w = self.width
        queries = self._split(F.linear(rotated, self.in_proj_weight[:w], self.in_proj_bias[:w]))
        mixed: Tensor = F.scaled_dot_product_attention(queries, keys, values)
        out: Tensor = self.out_proj(mixed.transpose(-2, -3).flatten(-2))
        return out

    def self_attend(self, rotated: Tensor, plain: Tensor) -> Tensor:
        """Self-attention; queries and keys are projected in one product. Both inputs (..., length, width)."""
        w = self.width
        query_key = F.linear(rotated, self.in_proj_weight[: 2 * w], self.in_proj_bias[: 2 * w])
        queries, keys = (self._split(part) for part in query_key.chunk(2, dim=-1))
        values = self._split(F.linear(plain, self.in_proj_weight[2 * w :], self.in_proj_bias[2 * w :]))
        mixed: Tensor = F.scaled_dot_product_attention(queries, keys, values)
        out: Tensor = self.out_proj(mixed.transpose(-2, -3).flatten(-2))
        return out
