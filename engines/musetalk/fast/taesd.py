"""The small decoder, fast: painted latents -> faces, every convolution one launch with its bias, residual and cut at zero."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from engines.musetalk.fast.maps import ALIGNED, convolved, convolved_relu, frozen_filter
from engines.networks.rewriting import UnsupportedNetworkError, frozen
from kernels.unet.doubled import doubled

_LIMIT = 3.0
"""Latents beyond it are bent back before decoding."""


class _Filter(nn.Module):
    """A convolution's weights."""

    weight: Tensor
    bias: Tensor

    def __init__(self, convolution: nn.Module, dtype: torch.dtype, inputs: int = 0, outputs: int = 0) -> None:
        super().__init__()
        frozen_filter(self, "weight", convolution, dtype, inputs, outputs)
        frozen(self, "bias", self.get_buffer("weight_bias"), dtype)


class _Cut(nn.Module):
    """Convolution and cut."""

    def __init__(self, convolution: nn.Module, dtype: torch.dtype, inputs: int = 0) -> None:
        super().__init__()
        self.filter = _Filter(convolution, dtype, inputs)

    def forward(self, x: Tensor) -> Tensor:
        return convolved_relu(x, self.filter.weight, self.filter.bias)


class _Block(nn.Module):
    """Three convolutions around which the map is passed."""

    def __init__(self, block: Any, dtype: torch.dtype) -> None:
        super().__init__()
        layers = list(block.conv)
        if not isinstance(block.skip, nn.Identity) or [isinstance(one, nn.ReLU) for one in layers] != [
            False, True, False, True, False,
        ]:  # fmt: skip
            raise UnsupportedNetworkError(
                "block", str(block)[:80], "three convolutions with ReLU, passed by the map itself"
            )
        self.first, self.second, self.last = (_Filter(one, dtype) for one in layers[::2])

    def forward(self, x: Tensor) -> Tensor:
        made = convolved_relu(x, self.first.weight, self.first.bias)
        made = convolved_relu(made, self.second.weight, self.second.bias)
        return convolved_relu(made, self.last.weight, self.last.bias, x)


class _Enlarge(nn.Module):
    """Every place four times, then a convolution."""

    def __init__(self, convolution: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.filter = _Filter(convolution, dtype)
        self.has_bias = getattr(convolution, "bias", None) is not None

    def forward(self, x: Tensor) -> Tensor:
        return convolved(doubled(x), self.filter.weight, self.filter.bias if self.has_bias else None)


class FastTaesd(nn.Module):
    """The decoder.

    Args:
        decoder: The decoder of `AutoencoderTiny`, float32; its weights are copied.
        dtype: float16 on a GPU; float32 is exact and for tests.

    Raises:
        UnsupportedNetworkError: A network with parts that this one does not know.
    """

    def __init__(self, decoder: nn.Module, dtype: torch.dtype = torch.float16) -> None:
        super().__init__()
        layers: list[Any] = list(decoder.layers)  # type: ignore[arg-type]  # a Sequential, to the type checker a module
        first, cut, *middle, last = layers
        if not isinstance(cut, nn.ReLU) or not isinstance(last, nn.Conv2d):
            raise UnsupportedNetworkError("decoder", "other layers", "ReLU after the first, a convolution as the last")
        made: list[nn.Module] = [_Cut(first, dtype, ALIGNED)]
        while middle:
            layer = middle.pop(0)
            if isinstance(layer, nn.Upsample) and layer.scale_factor == 2.0 and layer.mode == "nearest":
                made.append(_Enlarge(middle.pop(0), dtype))
            elif hasattr(layer, "fuse"):
                made.append(_Block(layer, dtype))
            else:
                raise UnsupportedNetworkError("decoder", type(layer).__name__, "blocks and enlargements by two")
        self.layers = nn.ModuleList(made)
        self.last = _Filter(last, dtype, outputs=ALIGNED)
        self.eval()

    def forward(self, painted: Tensor) -> Tensor:
        """Decode.

        Args:
            painted: (n, h, w, 8), from `FastUnet`.

        Returns:
            (n, 8 h, 8 w, 3) in 0..1 where the network means a colour, not cut, not rounded.
        """
        x = torch.tanh(painted / _LIMIT) * _LIMIT
        for layer in self.layers:
            x = layer(x)
        return convolved(x, self.last.weight, self.last.bias)[..., :3]
