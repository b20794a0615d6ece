"""LMDM's layers over fused operations: one set of weights in one type, the residual stream in float32."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engines.networks.attention import Attention
from engines.networks.lmdm import DecoderLayer, EncoderLayer
from engines.networks.rewriting import frozen
from kernels.lmdm.linear_film import linear_film
from kernels.lmdm.norm_linear import norm_linear
from kernels.lmdm.short_attention import Shared, short_attention

Tables = tuple[Tensor, Tensor]


class FusedAttention(nn.Module):
    """Self-attention: norm, rotation and the three projections in one launch, then scores, then the way back.

    Args:
        norm: The norm before it.
        attention: Where the weights come from; they are copied.
        dtype: Type of the products.
        cross: Only queries are made here; keys and values come from elsewhere.
    """

    gain: Tensor
    offset: Tensor
    inner: Tensor
    inner_bias: Tensor
    outer: Tensor
    outer_bias: Tensor

    def __init__(self, norm: nn.LayerNorm, attention: Attention, dtype: torch.dtype, *, cross: bool = False) -> None:
        super().__init__()
        self.heads = attention.heads
        self.width = attention.width
        made = self.width if cross else 3 * self.width  # a cross attention makes its keys elsewhere
        for name, value in (("gain", norm.weight), ("offset", norm.bias)):
            frozen(self, name, value, torch.float32)
        frozen(self, "inner", attention.in_proj_weight[:made], dtype)
        frozen(self, "inner_bias", attention.in_proj_bias[:made], torch.float32)
        frozen(self, "outer", attention.out_proj.weight, dtype)
        frozen(self, "outer_bias", attention.out_proj.bias, torch.float32)

    def forward(self, h: Tensor, tables: Tables, film: Tensor | None = None) -> Tensor:
        """Update h, float32 (g, length, width), in place; film (g, 2, width)."""
        w = self.width
        qkv = norm_linear(h, self.gain, self.offset, self.inner, self.inner_bias, tables=tables, rotated=2 * w)
        mixed = short_attention(qkv[..., :w], qkv[..., w : 2 * w], qkv[..., 2 * w :], self.heads)
        return linear_film(h, mixed, self.outer, self.outer_bias, film)

    def look_at(
        self, h: Tensor, keys: Tensor, values: Tensor, shared: Shared, tables: Tables, film: Tensor | None
    ) -> Tensor:
        """Cross attention; keys and values (g, length, width), `shared` for all items. Updates h in place."""
        q = norm_linear(h, self.gain, self.offset, self.inner, self.inner_bias, tables=tables, rotated=self.width)
        mixed = short_attention(q, keys, values, self.heads, shared)
        return linear_film(h, mixed, self.outer, self.outer_bias, film)


class FusedFeedForward(nn.Module):
    """Norm, linear and GELU in one launch, then the way back."""

    gain: Tensor
    offset: Tensor
    inner: Tensor
    inner_bias: Tensor
    outer: Tensor
    outer_bias: Tensor

    def __init__(self, norm: nn.LayerNorm, inner: nn.Linear, outer: nn.Linear, dtype: torch.dtype) -> None:
        super().__init__()
        for name, value in (("gain", norm.weight), ("offset", norm.bias)):
            frozen(self, name, value, torch.float32)
        for name, layer in (("inner", inner), ("outer", outer)):
            frozen(self, name, layer.weight, dtype)
            frozen(self, f"{name}_bias", layer.bias, torch.float32)

    def forward(self, h: Tensor, film: Tensor | None = None) -> Tensor:
        """Update h in place."""
        wide = norm_linear(h, self.gain, self.offset, self.inner, self.inner_bias, gelu=True)
        return linear_film(h, wide, self.outer, self.outer_bias, film)


class FusedEncoderLayer(nn.Module):
    """A layer of the condition encoder."""

    def __init__(self, layer: EncoderLayer, dtype: torch.dtype) -> None:
        super().__init__()
        self.attention = FusedAttention(layer.norm1, layer.self_attn, dtype)
        self.feed_forward = FusedFeedForward(layer.norm2, layer.linear1, layer.linear2, dtype)

    def forward(self, h: Tensor, tables: Tables) -> Tensor:
        """Update h in place."""
        return torch.as_tensor(self.feed_forward(self.attention(h, tables)))


@dataclass(frozen=True)
class LayerCondition:
    """What a decoder layer is given at one step.

    Attributes:
        film: (g, 3, 2, width), scale and shift of its three sub-layers.
        keys: (g, length, width) of the condition's tokens.
        values: Likewise.
        time: Keys and values of the time tokens, (2, width) each.
    """

    film: Tensor
    keys: Tensor
    values: Tensor
    time: Shared


class FusedDecoderLayer(nn.Module):
    """A decoder layer: eight launches."""

    def __init__(self, layer: DecoderLayer, dtype: torch.dtype) -> None:
        super().__init__()
        self.attention = FusedAttention(layer.norm1, layer.self_attn, dtype)
        self.cross = FusedAttention(layer.norm2, layer.multihead_attn, dtype, cross=True)
        self.feed_forward = FusedFeedForward(layer.norm3, layer.linear1, layer.linear2, dtype)

    def forward(self, h: Tensor, given: LayerCondition, tables: Tables) -> Tensor:
        """Update h in place."""
        film = given.film
        self.attention(h, tables, film[:, 0])
        self.cross.look_at(h, given.keys, given.values, given.time, tables, film[:, 1])
        return torch.as_tensor(self.feed_forward(h, film[:, 2]))


def stacked(tensors: Iterable[Tensor]) -> Tensor:
    """Weights of several layers as one product's."""
    return torch.cat([tensor.detach() for tensor in tensors])
