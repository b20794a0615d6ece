"""The end of a residual block whose convolution left its bias out: x += residual + bias, in place.

`add_residual_torch` is the reference and the CPU path; CUDA tensors take `kernels.unet.rows_triton`.
"""

from __future__ import annotations

import importlib.util

import torch
from torch import Tensor

from kernels.errors import ShapeError


def add_residual(x: Tensor, residual: Tensor, bias: Tensor) -> Tensor:
    """Add.

    Args:
        x: (..., c), contiguous, floating point; written in place.
        residual: Like x.
        bias: float32 (c,).

    Returns:
        x.

    Raises:
        ShapeError: The tensors do not fit together.
    """
    if not x.is_floating_point() or not x.is_contiguous():
        raise ShapeError("x", f"{x.dtype} {tuple(x.shape)}", "contiguous floating point (..., c)")
    if residual.shape != x.shape or residual.dtype != x.dtype or not residual.is_contiguous():
        raise ShapeError("residual", f"{residual.dtype} {tuple(residual.shape)}", f"{x.dtype} {tuple(x.shape)}")
    if bias.shape != x.shape[-1:] or bias.dtype != torch.float32:
        raise ShapeError("bias", f"{bias.dtype} {tuple(bias.shape)}", f"float32 ({x.shape[-1]},)")
    if x.device.type == "cpu" or importlib.util.find_spec("triton") is None:
        return add_residual_torch(x, residual, bias)
    from kernels.unet.rows_triton import add_rows  # here, so that Triton is loaded on a GPU only

    return add_rows(x, residual, bias)


def add_residual_torch(x: Tensor, residual: Tensor, bias: Tensor) -> Tensor:
    """The formula in torch on any device; arguments and result as in `add_residual`."""
    return x.copy_(x.float() + residual.float() + bias)
