"""3x3 convolution with bias, residual and leaky slope in one pass, channels last.

Formula, with zero padding of one pixel and y at stride 1 or 2:

    v(n, y, x, o) = bias(o) + sum over dy, dx, i of input(n, stride * y + dy - 1, stride * x + dx - 1, i) * weight(dy, dx, i, o)
    residual BEFORE: out = act(v + residual);   AFTER: out = act(v) + residual
    act(v) = v where v > 0, else slope(o) * v

Sums and everything after them are float32, whatever the type of the tensors; the result is rounded once.
`conv3x3_torch` is the reference and the CPU path; CUDA tensors take `kernels.conv.conv3x3_triton`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.conv.conv3x3_layout import Conv3x3, Residual, output_shape
from kernels.errors import ShapeError


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
