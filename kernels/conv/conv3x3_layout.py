"""Constants of a 3x3 convolution as `kernels.conv.conv3x3` and its Triton body want them laid out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.errors import InvalidInputError, ShapeError

Residual = Literal["none", "before", "after"]


@dataclass(frozen=True)
class Conv3x3:
    """Constants of one convolution.

    Attributes:
        weight: (9, i, o): taps row by row, then input, then output channels; i 8 or a multiple of 16, o one of 16.
        bias: float32 (o,).
        slope: float32 (o,), 1 for no activation.
        stride: 1 or 2.
    """

    weight: Tensor
    bias: Tensor
    slope: Tensor
    stride: int = 1

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Conv3x3:
        """On a device, the weight in another precision; bias and slope stay float32."""
        weight = self.weight.to(device, dtype).contiguous()
        return replace(self, weight=weight, bias=self.bias.to(device), slope=self.slope.to(device))


def make_conv3x3(weight: Tensor, bias: Tensor, slope: Tensor | float = 1.0, stride: int = 1) -> Conv3x3:
    """Lay out a convolution as torch keeps it; channels are padded with zeros to what the kernel needs.

    Args:
        weight: float32 (o, i, 3, 3).
        bias: float32 (o,).
        slope: A number, or float32 (o,).
        stride: 1 or 2.

    Raises:
        ShapeError: Another kernel size, or tensors that do not fit.
        InvalidInputError: Another stride.
    """
    if weight.dim() != 4 or weight.shape[2:] != (3, 3) or bias.shape != weight.shape[:1]:
        raise ShapeError("weight, bias", f"{tuple(weight.shape)}, {tuple(bias.shape)}", "(o, i, 3, 3), (o,)")
    if stride not in (1, 2):
        raise InvalidInputError("stride", str(stride), "1 or 2")
    slopes = slope if isinstance(slope, Tensor) else torch.full_like(bias, slope)
    if slopes.shape != bias.shape:
        raise ShapeError("slope", str(tuple(slopes.shape)), str(tuple(bias.shape)))
    more_out, more_in = -weight.shape[0] % 16, -weight.shape[1] % (8 if weight.shape[1] <= 8 else 16)
    padded = F.pad(weight.float(), (0, 0, 0, 0, 0, more_in, 0, more_out))
    taps = padded.permute(2, 3, 1, 0).reshape(9, padded.shape[1], padded.shape[0]).contiguous()
    return Conv3x3(taps, F.pad(bias.float(), (0, more_out)), F.pad(slopes.float(), (0, more_out)), stride)


def output_shape(x: Tensor, conv: Conv3x3) -> tuple[int, int, int, int]:
    """(n, h', w', o)."""
    n, h, w = x.shape[:3]
    return n, -(-h // conv.stride), -(-w // conv.stride), conv.weight.shape[2]
