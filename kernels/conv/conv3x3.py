"""3x3 convolution with bias, residual and leaky slope in one pass, channels last.

Formula, with zero padding of one pixel and y at stride 1 or 2:

    v(n, y, x, o) = bias(o) + sum over dy, dx, i of input(n, stride * y + dy - 1, stride * x + dx - 1, i) * weight(dy, dx, i, o)
    residual BEFORE: out = act(v + residual);   AFTER: out = act(v) + residual
    act(v) = v where v > 0, else slope(o) * v

Sums and everything after them are float32, whatever the type of the tensors; the result is rounded once.
`conv3x3_torch` is the reference and the CPU path; CUDA tensors take `kernels.conv.conv3x3_triton`.
"""

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


def conv3x3(x: Tensor, conv: Conv3x3, residual: Tensor | None = None, order: Residual = "none") -> Tensor:
    """Convolve.

    Args:
        x: (n, h, w, i), contiguous, float16 or float32, on the device and in the precision of `conv`; n >= 1.
        conv: Constants.
        residual: (n, h', w', o) where `order` asks for one.
        order: Whether the residual is added before or after the activation.

    Returns:
        (n, h', w', o) with h' = ceil(h / stride), dtype of `x`.

    Raises:
        ShapeError: Tensors that do not fit.
    """
    shape = output_shape(x, conv)
    if x.dim() != 4 or x.shape[3] != conv.weight.shape[1] or x.dtype != conv.weight.dtype or 0 in x.shape:
        raise ShapeError("x", f"{x.dtype} {tuple(x.shape)}", f"{conv.weight.dtype} (n, h, w, {conv.weight.shape[1]})")
    if (residual is None) != (order == "none") or (residual is not None and tuple(residual.shape) != shape):
        got = "none" if residual is None else str(tuple(residual.shape))
        raise ShapeError("residual", got, f"{shape} with order before or after, or none with order none")
    if x.device.type == "cpu":
        return conv3x3_torch(x, conv, residual, order)
    from kernels.conv.conv3x3_triton import launch  # here, so that Triton is loaded on a GPU only

    return launch(x, conv, residual, order)


def conv3x3_torch(x: Tensor, conv: Conv3x3, residual: Tensor | None = None, order: Residual = "none") -> Tensor:
    """The formula in plain torch; arguments and result as in `conv3x3`."""
    _, i, o = conv.weight.shape
    weight = conv.weight.float().reshape(3, 3, i, o).permute(3, 2, 0, 1)
    value = F.conv2d(x.float().permute(0, 3, 1, 2), weight, conv.bias, conv.stride, 1).permute(0, 2, 3, 1)
    if residual is not None and order == "before":
        value = value + residual.float()
    value = torch.where(value > 0, value, value * conv.slope)
    if residual is not None and order == "after":
        value = value + residual.float()
    return value.to(x.dtype).contiguous()


def output_shape(x: Tensor, conv: Conv3x3) -> tuple[int, int, int, int]:
    """(n, h', w', o)."""
    n, h, w = x.shape[:3]
    return n, -(-h // conv.stride), -(-w // conv.stride), conv.weight.shape[2]
