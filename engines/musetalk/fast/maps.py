"""Maps whose channels lie together (n, h, w, c), as the matrix units read them, and the convolutions over them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engines.networks.rewriting import UnsupportedNetworkError

ALIGNED: int = 8
"""Channels that half-precision convolutions read at once: fewer are padded with zeros."""


def frozen_filter(
    module: nn.Module, name: str, convolution: nn.Module, dtype: torch.dtype, inputs: int = 0, outputs: int = 0
) -> None:
    """Register a convolution's weight as `name`, channels last, and its bias as `name_bias`, float32; zeros where it has none.

    Args:
        module: Gets the buffers.
        name: Of the weight.
        convolution: Where it comes from; it is copied.
        dtype: Type of the weight.
        inputs: Least input channels: further ones have zero weights.
        outputs: Least output channels: further ones are zero.

    Raises:
        UnsupportedNetworkError: Not a plain 3 x 3 or 1 x 1 convolution.
    """
    if not isinstance(convolution, nn.Conv2d) or convolution.groups != 1 or convolution.padding_mode != "zeros":
        raise UnsupportedNetworkError("convolution", str(convolution)[:80], "a plain Conv2d")
    weight = convolution.weight.detach()
    missing = max(0, outputs - weight.shape[0]), max(0, inputs - weight.shape[1])
    weight = F.pad(weight, (0, 0, 0, 0, 0, missing[1], 0, missing[0]))
    bias = weight.new_zeros(len(weight))
    if convolution.bias is not None:
        bias[: len(convolution.bias)] = convolution.bias.detach()
    kept = weight.to(dtype, copy=True).contiguous(memory_format=torch.channels_last)
    module.register_buffer(name, kept, persistent=False)
    module.register_buffer(f"{name}_bias", bias.to(torch.float32, copy=True), persistent=False)


def convolved(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int = 1) -> Tensor:
    """A 3 x 3 convolution that keeps size and layout (n, h, w, c); `stride` 2 halves the sides."""
    made = F.conv2d(x.permute(0, 3, 1, 2), weight, bias, stride=stride, padding=1)
    return made.permute(0, 2, 3, 1).contiguous()


def convolved_relu(x: Tensor, weight: Tensor, bias: Tensor, residual: Tensor | None = None) -> Tensor:
    """A 3 x 3 convolution, plus its bias and a residual, cut at zero: one launch on a GPU."""
    planar = x.permute(0, 3, 1, 2)
    ones = [1, 1]
    if x.device.type != "cuda":
        made = F.conv2d(planar, weight, bias, padding=1)
        made = F.relu(made if residual is None else made + residual.permute(0, 3, 1, 2))
    elif residual is None:
        made = torch.cudnn_convolution_relu(planar, weight, bias, ones, ones, ones, 1)
    else:
        made = torch.cudnn_convolution_add_relu(
            planar, weight, residual.permute(0, 3, 1, 2), 1.0, bias, ones, ones, ones, 1
        )
    return made.permute(0, 2, 3, 1).contiguous()


def rows_of(x: Tensor) -> Tensor:
    """A contiguous stack as (places, channels), a view."""
    return x.view(-1, x.shape[-1])
