"""Nearest-neighbour enlargement by two of maps whose channels lie together: every place four times.

`doubled_torch` is the reference and the CPU path; CUDA tensors take `kernels.unet.rows_triton`, which reads every place once:
torch's own kernel takes ten times what the bytes need.
"""

from __future__ import annotations

import importlib.util

import torch.nn.functional as F
from torch import Tensor

from kernels.errors import ShapeError


def doubled(x: Tensor) -> Tensor:
    """Enlarge.

    Args:
        x: (n, h, w, c), contiguous, floating point.

    Returns:
        (n, 2 h, 2 w, c) in the same type.

    Raises:
        ShapeError: Another rank, or not contiguous floating point.
    """
    if x.ndim != 4 or not x.is_floating_point() or not x.is_contiguous():
        raise ShapeError("x", f"{x.dtype} {tuple(x.shape)}", "contiguous floating point (n, h, w, c)")
    if x.device.type == "cpu" or importlib.util.find_spec("triton") is None:
        return doubled_torch(x)
    from kernels.unet.rows_triton import double_places  # here, so that Triton is loaded on a GPU only

    return double_places(x)


def doubled_torch(x: Tensor) -> Tensor:
    """The formula in torch on any device; argument and result as in `doubled`."""
    made = F.interpolate(x.permute(0, 3, 1, 2), scale_factor=2.0, mode="nearest")
    return made.permute(0, 2, 3, 1).contiguous()
