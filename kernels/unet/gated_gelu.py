"""The gate of a transformer's wide layer: the first half of the columns times the exact (erf) GELU of the second.

`gated_gelu_torch` is the reference and the CPU path; CUDA tensors take `kernels.unet.rows_triton`.
"""

from __future__ import annotations

import importlib.util

import torch.nn.functional as F
from torch import Tensor

from kernels.errors import ShapeError


def gated_gelu(wide: Tensor) -> Tensor:
    """Gate.

    Args:
        wide: (..., 2 c), contiguous, floating point.

    Returns:
        (..., c) in the same type.

    Raises:
        ShapeError: An odd number of columns, or not contiguous floating point.
    """
    if not wide.is_floating_point() or not wide.is_contiguous() or not wide.ndim or wide.shape[-1] % 2:
        raise ShapeError("wide", f"{wide.dtype} {tuple(wide.shape)}", "contiguous floating point (..., 2 c)")
    if wide.device.type == "cpu" or importlib.util.find_spec("triton") is None:
        return gated_gelu_torch(wide)
    from kernels.unet.rows_triton import gate_rows  # here, so that Triton is loaded on a GPU only

    return gate_rows(wide)


def gated_gelu_torch(wide: Tensor) -> Tensor:
    """The formula in torch on any device; argument and result as in `gated_gelu`."""
    value, gate = wide.float().chunk(2, dim=-1)
    return (value * F.gelu(gate)).to(wide.dtype).contiguous()
