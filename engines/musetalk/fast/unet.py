"""The painter's UNet, fast: latents and tokens -> painted latents, at time step 0."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engines.musetalk.fast.attention import FastTransformer
from engines.musetalk.fast.maps import ALIGNED, convolved, frozen_filter
from engines.musetalk.fast.resnet import FastNorm, FastResnet
from engines.networks.rewriting import UnsupportedNetworkError, frozen
from kernels.unet.doubled import doubled


class FastConvolution(nn.Module):
    """A convolution with its bias, of stride 1 or 2.

    Args:
        convolution: Where the weights come from; they are copied.
        dtype: Type of the products.
        inputs: Least input channels.
        outputs: Least output channels.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, convolution: nn.Module, dtype: torch.dtype, inputs: int = 0, outputs: int = 0) -> None:
        super().__init__()
        frozen_filter(self, "weight", convolution, dtype, inputs, outputs)
        frozen(self, "bias", self.get_buffer("weight_bias"), dtype)
        assert isinstance(convolution, nn.Conv2d)  # noqa: S101 - checked above
        self.stride = int(convolution.stride[0])

    def forward(self, x: Tensor) -> Tensor:
        """Convolve (n, h, w, c)."""
        return convolved(x, self.weight, self.bias, self.stride)


class _Level(nn.Module):
    """Blocks of one resolution, each with its transformer where it has one, and the step to the next resolution."""

    def __init__(self, resnets: Any, transformers: Any, step: Any, time: Tensor, dtype: torch.dtype) -> None:
        super().__init__()
        made = [FastTransformer(one, dtype) for one in transformers]
        self.transformers = nn.ModuleList(made)
        afters = [one.after for one in made] + [None] * (len(resnets) - len(made))
        self.resnets = nn.ModuleList(
            [FastResnet(block, time, after, dtype) for block, after in zip(resnets, afters, strict=True)]
        )
        self.step = None if step is None else FastConvolution(step, dtype)

    def run(self, index: int, x: Tensor, heard: list[Tensor], skip: Tensor | None = None) -> Tensor:
        """One block, which takes its own keys and values off the front of `heard`."""
        made: Tensor = self.resnets[index](x, skip)
        if index < len(self.transformers):
            made = self.transformers[index](made, heard.pop(0))
        return made


class FastUnet(nn.Module):
    """The network.

    Args:
        unet: `UNet2DConditionModel`, float32; its weights are copied.
        dtype: float16 on a GPU; float32 is exact and for tests.

    Raises:
        UnsupportedNetworkError: A network with parts that this one does not know.
    """

    to_heard: Tensor

    def __init__(self, unet: nn.Module, dtype: torch.dtype = torch.float16) -> None:
        super().__init__()
        parts: Any = unet
        self.dtype = dtype
        with torch.no_grad():
            weight = parts.conv_in.weight
            step = torch.zeros(1, dtype=torch.long, device=weight.device)
            time = parts.time_embedding(parts.time_proj(step).to(weight.dtype))
            self.conv_in = FastConvolution(parts.conv_in, dtype)
            self.down = nn.ModuleList([_level(block, "downsamplers", time, dtype) for block in parts.down_blocks])
            middle = parts.mid_block
            self.middle = _Level(middle.resnets, getattr(middle, "attentions", ()), None, time, dtype)
            self.up = nn.ModuleList([_level(block, "upsamplers", time, dtype) for block in parts.up_blocks])
            self.norm_out = FastNorm(parts.conv_norm_out, silu=isinstance(parts.conv_act, nn.SiLU))
            self.conv_out = FastConvolution(parts.conv_out, dtype, outputs=ALIGNED)
            levels = [one for one in (*self.down, self.middle, *self.up) if isinstance(one, _Level)]
            transformers = [one for level in levels for one in level.transformers if isinstance(one, FastTransformer)]
            if not transformers or not self.norm_out.silu or parts.config.center_input_sample:
                raise UnsupportedNetworkError("unet", "other parts", "attention to speech, SiLU at the end")
            frozen(self, "to_heard", torch.cat([one.heard for one in transformers]), dtype)
            self._widths = [len(one.heard) for one in transformers]
            for one in transformers:
                del one.heard
        self.eval()

    def forward(self, latents: Tensor, tokens: Tensor) -> Tensor:
        """Paint.

        Args:
            latents: (n, 8, 32, 32), scaled.
            tokens: (n, 50, 384), features with their positions added.

        Returns:
            (n, 32, 32, 8) in the network's type: four channels of scaled latents, then zeros up to eight.
        """
        heard = list(torch.split(F.linear(tokens.to(self.dtype), self.to_heard), self._widths, dim=-1))
        x = self.conv_in(latents.to(self.dtype).permute(0, 2, 3, 1).contiguous())
        skips = [x]
        for level in self.down:
            assert isinstance(level, _Level)  # noqa: S101 - what the list was made of
            for index in range(len(level.resnets)):
                x = level.run(index, x, heard)
                skips.append(x)
            if level.step is not None:
                x = level.step(x)
                skips.append(x)
        for index in range(len(self.middle.resnets)):
            x = self._middle(index, x, heard)
        for level in self.up:
            assert isinstance(level, _Level)  # noqa: S101 - as above
            for index in range(len(level.resnets)):
                x = level.run(index, x, heard, skips.pop())
            if level.step is not None:
                x = level.step(doubled(x))
        made: Tensor = self.conv_out(self.norm_out(x))
        return made

    def _middle(self, index: int, x: Tensor, heard: list[Tensor]) -> Tensor:
        return self.middle.run(index, x, heard)


def _level(block: Any, steps: str, time: Tensor, dtype: torch.dtype) -> _Level:
    found = getattr(block, steps, None)
    step = None if found is None else found[0].conv
    return _Level(block.resnets, getattr(block, "attentions", ()), step, time, dtype)
