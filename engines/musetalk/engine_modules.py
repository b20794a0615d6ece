"""The painter and the small decoder for TensorRT: the library's modules, time embedding baked in, norms in float32."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class _Constant(nn.Module):
    """Stands for a part whose result never changes."""

    value: Tensor

    def __init__(self, value: Tensor) -> None:
        super().__init__()
        self.register_buffer("value", value.detach().clone())

    def forward(self, *given: Tensor | None) -> Tensor:
        """The constant, whatever is given."""
        return self.value


class _ExactNorm(nn.Module):
    """Group norm or layer norm in float32 between half-precision maps: their sums of squares would not fit."""

    def __init__(self, norm: nn.GroupNorm | nn.LayerNorm) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        """Norm in float32, and back."""
        norm = self.norm
        weight, bias = (None if one is None else one.float() for one in (norm.weight, norm.bias))
        if isinstance(norm, nn.GroupNorm):
            return F.group_norm(x.float(), norm.num_groups, weight, bias, norm.eps).to(x.dtype)
        return F.layer_norm(x.float(), norm.normalized_shape, weight, bias, norm.eps).to(x.dtype)


class _Double(nn.Module):
    """Every place four times, then a convolution; the library's module asks how large the batch is."""

    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: Tensor, size: object = None) -> Tensor:
        """(n, c, h, w) -> (n, c, 2 h, 2 w)."""
        made: Tensor = self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return made


class UnetEngine(nn.Module):
    """Latents and tokens -> painted latents.

    Args:
        unet: `UNet2DConditionModel`, float32; it is copied.
    """

    def __init__(self, unet: nn.Module) -> None:
        super().__init__()
        made: Any = copy.deepcopy(unet)
        with torch.no_grad():
            step = torch.zeros(1, dtype=torch.long)
            time = made.time_embedding(made.time_proj(step).to(made.conv_in.weight.dtype))
        made.time_proj, made.time_embedding = _Constant(time), _Constant(time)
        _make_norms_exact(made)
        for block in made.up_blocks:
            if block.upsamplers is not None:
                block.upsamplers = nn.ModuleList([_Double(one.conv) for one in block.upsamplers])
        self.unet = made

    def forward(self, latents: Tensor, tokens: Tensor) -> Tensor:
        """(n, 8, 32, 32), (n, 50, 384) -> (n, 4, 32, 32)."""
        painted: Tensor = self.unet(latents, 0, tokens, return_dict=False)[0]
        return painted


class DecoderEngine(nn.Module):
    """Painted latents -> colours 0..1, of TAESD's decoder.

    Args:
        decoder: The decoder of `AutoencoderTiny`; it is kept.
    """

    def __init__(self, decoder: nn.Module) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, painted: Tensor) -> Tensor:
        """(n, 4, h, w) -> (n, 3, 8 h, 8 w)."""
        picture: Tensor = self.decoder(painted)
        return (picture / 2 + 0.5).clamp(0, 1)


def _make_norms_exact(module: nn.Module) -> None:
    for name, part in list(module.named_children()):
        if isinstance(part, nn.GroupNorm | nn.LayerNorm):
            setattr(module, name, _ExactNorm(part))
        else:
            _make_norms_exact(part)
