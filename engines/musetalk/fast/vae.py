"""The autoencoder's decoder, fast: the quality tier. Painted latents -> faces over the same residual blocks as the painter's."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engines.musetalk.fast.maps import ALIGNED, rows_of
from engines.musetalk.fast.resnet import FastNorm, FastResnet
from engines.musetalk.fast.unet import FastConvolution
from engines.musetalk.painter import LATENT_SCALE
from engines.networks.rewriting import UnsupportedNetworkError, frozen
from kernels.unet.doubled import doubled


class _Places(nn.Module):
    """Attention among places, one head."""

    to_qkv: Tensor
    to_qkv_bias: Tensor
    to_out: Tensor
    to_out_bias: Tensor

    def __init__(self, attention: Any, dtype: torch.dtype) -> None:
        super().__init__()
        if attention.heads != 1 or not attention.residual_connection or attention.rescale_output_factor != 1.0:
            raise UnsupportedNetworkError("attention", f"{attention.heads} heads", "one head around a residual")
        self.norm = FastNorm(attention.group_norm, silu=False)
        parts = (attention.to_q, attention.to_k, attention.to_v)
        frozen(self, "to_qkv", torch.cat([part.weight for part in parts]), dtype)
        frozen(self, "to_qkv_bias", torch.cat([part.bias for part in parts]), dtype)
        frozen(self, "to_out", attention.to_out[0].weight, dtype)
        frozen(self, "to_out_bias", attention.to_out[0].bias, dtype)

    def forward(self, x: Tensor) -> Tensor:
        items, channels = x.shape[0], x.shape[-1]
        qkv = F.linear(self.norm(x).view(items, 1, -1, channels), self.to_qkv, self.to_qkv_bias)
        query, key, value = torch.split(qkv, channels, dim=-1)
        mixed = F.scaled_dot_product_attention(query, key, value)
        return x + F.linear(mixed, self.to_out, self.to_out_bias).view(x.shape)


class FastVae(nn.Module):
    """The decoder.

    Args:
        vae: `AutoencoderKL`, float32; its decoder's weights are copied.
        dtype: float16 on a GPU; float32 is exact and for tests.

    Raises:
        UnsupportedNetworkError: A network with parts that this one does not know.
    """

    unscale: Tensor
    unscale_bias: Tensor

    def __init__(self, vae: nn.Module, dtype: torch.dtype = torch.float16) -> None:
        super().__init__()
        parts: Any = vae
        decoder, first = parts.decoder, parts.post_quant_conv
        if first is None:
            raise UnsupportedNetworkError("vae", "no post_quant_conv", "one")
        missing = ALIGNED - len(first.weight)
        with torch.no_grad():
            weight = F.pad(first.weight[:, :, 0, 0].float() / LATENT_SCALE, (0, missing, 0, missing))
            frozen(self, "unscale", weight, dtype)
            frozen(self, "unscale_bias", F.pad(first.bias.float(), (0, missing)), dtype)
            self.conv_in = FastConvolution(decoder.conv_in, dtype, inputs=ALIGNED)
            middle = decoder.mid_block
            places = [_Places(one, dtype) for one in middle.attentions if one is not None]
            blocks = [FastResnet(one, None, None, dtype) for one in middle.resnets]
            self.middle = nn.Sequential(blocks[0], *places, *blocks[1:])
            if len(blocks) != 2 or len(places) > 1:
                raise UnsupportedNetworkError("vae", "another middle", "two blocks")
            self.up = nn.ModuleList(
                [nn.Sequential(*(FastResnet(one, None, None, dtype) for one in up.resnets)) for up in decoder.up_blocks]
            )
            self.steps = nn.ModuleList(
                [
                    nn.Identity() if up.upsamplers is None else FastConvolution(up.upsamplers[0].conv, dtype)
                    for up in decoder.up_blocks
                ]
            )
            self.norm_out = FastNorm(decoder.conv_norm_out, silu=True)
            self.conv_out = FastConvolution(decoder.conv_out, dtype, outputs=ALIGNED)
        self.eval()

    def forward(self, painted: Tensor) -> Tensor:
        """Decode; see `engines.musetalk.fast.taesd.FastTaesd.forward`."""
        x = F.linear(rows_of(painted), self.unscale, self.unscale_bias).view(painted.shape)
        x = self.middle(self.conv_in(x))
        for blocks, step in zip(self.up, self.steps, strict=True):
            x = blocks(x)
            if isinstance(step, FastConvolution):
                x = step(doubled(x))
        made: Tensor = self.conv_out(self.norm_out(x))[..., :3].float()
        return made / 2 + 0.5
