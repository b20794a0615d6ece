"""A spatial transformer: attention among places, attention to the speech, and a wide gated layer, around a residual stream.

What is done differently from the library, all of it exact but for rounding:
* The products that end a layer are added to the stream where they are computed. Their biases are constants per channel, so nobody
  adds them to the stream: the next norm adds the sum of those so far while it reads, and the last product's bias has what they
  come to.
* That bias is added by the block before (`after` of `FastResnet`), and taken off again by this transformer's first norm.
* Queries, keys and values of a layer are one product; keys and values of the speech are one product for the whole network.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engines.musetalk.fast.maps import rows_of
from engines.musetalk.fast.resnet import FastNorm
from engines.networks.rewriting import UnsupportedNetworkError, frozen
from kernels.norms import EPS
from kernels.unet.gated_gelu import gated_gelu
from kernels.unet.layer_norm import layer_norm


class FastTransformer(nn.Module):
    """The transformer.

    Args:
        transformer: `Transformer2DModel` with one layer; its weights are copied.
        dtype: Type of the products.

    Raises:
        UnsupportedNetworkError: Another transformer.
    """

    to_qkv: Tensor
    to_out: Tensor
    to_query: Tensor
    to_out_2: Tensor
    wide: Tensor
    wide_bias: Tensor
    narrow: Tensor
    project_in: Tensor
    project_in_bias: Tensor
    project_out: Tensor
    after: Tensor
    heard: Tensor

    def __init__(self, transformer: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        parts: Any = transformer
        block = _only_layer(parts)
        self.heads: int = block.attn1.heads
        for name, layer in (("project_in", parts.proj_in), ("project_out", parts.proj_out)):
            frozen(self, name, layer.weight.flatten(1), dtype)
        frozen(self, "project_in_bias", parts.proj_in.bias, dtype)
        own = block.attn1
        frozen(self, "to_qkv", torch.cat([own.to_q.weight, own.to_k.weight, own.to_v.weight]), dtype)
        frozen(self, "to_out", own.to_out[0].weight, dtype)
        frozen(self, "to_query", block.attn2.to_q.weight, dtype)
        frozen(self, "to_out_2", block.attn2.to_out[0].weight, dtype)
        frozen(self, "wide", block.ff.net[0].proj.weight, dtype)
        frozen(self, "wide_bias", block.ff.net[0].proj.bias, dtype)
        frozen(self, "narrow", block.ff.net[2].weight, dtype)
        unseen = torch.zeros_like(own.to_out[0].bias, dtype=torch.float32)
        biases = (own.to_out[0].bias, block.attn2.to_out[0].bias, block.ff.net[2].bias)
        for index, (norm, bias) in enumerate(zip((block.norm1, block.norm2, block.norm3), biases, strict=True)):
            frozen(self, f"gain_{index}", norm.weight, torch.float32)
            frozen(self, f"shift_{index}", norm.bias, torch.float32)
            frozen(self, f"unseen_{index}", unseen, torch.float32)
            unseen = unseen + bias.detach().float()
        after = parts.proj_out.bias.detach().float() + parts.proj_out.weight.detach().float().flatten(1) @ unseen
        frozen(self, "after", after, torch.float32)
        self.norm = FastNorm(parts.norm, silu=False, offset=-after)
        frozen(self, "heard", torch.cat([block.attn2.to_k.weight, block.attn2.to_v.weight]), dtype)

    def forward(self, x: Tensor, heard: Tensor) -> Tensor:
        """Update a map in place.

        Args:
            x: (n, h, w, c), with `after` in it already.
            heard: (n, tokens, 2 d), keys and values of the speech: `heard` times the tokens.

        Returns:
            x.
        """
        items = x.shape[0]
        stream = F.linear(self.norm(x), self.project_in, self.project_in_bias).view(items, -1, len(self.project_in))
        inner, rows = stream.shape[-1], rows_of(stream)
        qkv = F.linear(self._normed(stream, 0), self.to_qkv)
        rows.addmm_(self._attended(*torch.split(qkv, inner, dim=-1)), self.to_out.t())
        query = F.linear(self._normed(stream, 1), self.to_query)
        rows.addmm_(self._attended(query, *torch.split(heard, inner, dim=-1)), self.to_out_2.t())
        wide = F.linear(self._normed(stream, 2), self.wide, self.wide_bias)
        rows.addmm_(rows_of(gated_gelu(wide)), self.narrow.t())
        rows_of(x).addmm_(rows, self.project_out.t())
        return x

    def _normed(self, stream: Tensor, index: int) -> Tensor:
        offset = self.get_buffer(f"unseen_{index}") if index else None
        return layer_norm(stream, self.get_buffer(f"gain_{index}"), self.get_buffer(f"shift_{index}"), offset)

    def _attended(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Softmax of scaled products, (n * places, c)."""
        q, k, v = (torch.unflatten(t, -1, (self.heads, -1)).transpose(1, 2) for t in (query, key, value))
        mixed = F.scaled_dot_product_attention(q, k, v)
        return mixed.transpose(1, 2).reshape(-1, query.shape[-1])


def _only_layer(parts: Any) -> Any:
    if len(parts.transformer_blocks) != 1 or not isinstance(parts.proj_in, nn.Conv2d):
        raise UnsupportedNetworkError("transformer", "other layers", "one, between convolutions of 1 x 1")
    block = parts.transformer_blocks[0]
    norms = (block.norm1, block.norm2, block.norm3)
    if any(not isinstance(norm, nn.LayerNorm) or norm.eps != EPS or norm.weight is None for norm in norms):
        raise UnsupportedNetworkError("transformer", "other norms", f"LayerNorm, eps {EPS}")
    if any(to.bias is not None for part in (block.attn1, block.attn2) for to in (part.to_q, part.to_k, part.to_v)):
        raise UnsupportedNetworkError("attention", "biases of queries, keys or values", "none")
    if type(block.ff.net[0]).__name__ != "GEGLU":
        raise UnsupportedNetworkError("wide layer", type(block.ff.net[0]).__name__, "GEGLU")
    return block
