"""Layer norm of rows that lack a constant: (x + offset - mean) / sqrt(variance + eps) * weight + bias, over the last axis.

A residual stream whose layers' biases are constants need not carry them: who reads it adds their sum. `layer_norm_torch` is the
reference and the CPU path; CUDA tensors take `kernels.unet.rows_triton`.
"""

from __future__ import annotations

import importlib.util

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.errors import ShapeError
from kernels.norms import EPS


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, offset: Tensor | None = None) -> Tensor:
    """Norm rows.

    Args:
        x: (..., c), contiguous, floating point.
        weight: float32 (c,).
        bias: float32 (c,).
        offset: float32 (c,), added to every row first; None: nothing.

    Returns:
        Like x.

    Raises:
        ShapeError: The tensors do not fit together.
    """
    if not x.is_floating_point() or not x.is_contiguous():
        raise ShapeError("x", f"{x.dtype} {tuple(x.shape)}", "contiguous floating point (..., c)")
    for name, values in (("weight", weight), ("bias", bias), ("offset", offset)):
        if values is not None and (values.shape != x.shape[-1:] or values.dtype != torch.float32):
            raise ShapeError(name, f"{values.dtype} {tuple(values.shape)}", f"float32 ({x.shape[-1]},)")
    if x.device.type == "cpu" or importlib.util.find_spec("triton") is None:
        return layer_norm_torch(x, weight, bias, offset)
    from kernels.unet.rows_triton import norm_rows  # here, so that Triton is loaded on a GPU only

    return norm_rows(x, weight, bias, offset)


def layer_norm_torch(x: Tensor, weight: Tensor, bias: Tensor, offset: Tensor | None = None) -> Tensor:
    """The formula in torch on any device; arguments and result as in `layer_norm`."""
    values = x.float() if offset is None else x.float() + offset
    return F.layer_norm(values, weight.shape, weight, bias, EPS).to(x.dtype)
