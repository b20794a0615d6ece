"""Group norm, then SiLU, of maps whose channels lie together; of two maps behind each other without joining them first.

    v = concat(x, skip) + offset                                       over channels; `offset` is a constant per channel
    y = (v - mean) / sqrt(variance + eps) * weight + bias              over a group's channels and all places of one item
    y * sigmoid(y)                                                     where `silu`

Statistics are those of the item alone, so what else is in the batch changes nothing. `group_norm_torch` is the reference and the
CPU path; CUDA tensors take `kernels.unet.group_norm_triton`, in fp32 from load to store.
"""

from __future__ import annotations

import importlib.util

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.errors import InvalidInputError, ShapeError


def group_norm(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    groups: int,
    eps: float,
    *,
    silu: bool = False,
    skip: Tensor | None = None,
    offset: Tensor | None = None,
) -> Tensor:
    """Norm, and activate.

    Args:
        x: (n, h, w, c), contiguous, floating point.
        weight: float32 (c + c of `skip`,).
        bias: Likewise.
        groups: Number of groups; it divides the channels.
        eps: Added to the variance.
        silu: Apply x * sigmoid(x) at the end.
        skip: (n, h, w, d), of the same type: channels behind x's.
        offset: float32 like `weight`, added to the channels before anything else; None: nothing.

    Returns:
        (n, h, w, c + d) in x's type.

    Raises:
        ShapeError: The tensors do not fit together.
        InvalidInputError: Groups that do not divide the channels.
    """
    _validate(x, weight, bias, groups, skip, offset)
    if x.device.type == "cpu" or importlib.util.find_spec("triton") is None:
        return group_norm_torch(x, weight, bias, groups, eps, silu=silu, skip=skip, offset=offset)
    from kernels.unet.group_norm_triton import norm  # here, so that Triton is loaded on a GPU only

    return norm(x, weight, bias, groups, eps, silu=silu, skip=skip, offset=offset)


def group_norm_torch(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    groups: int,
    eps: float,
    *,
    silu: bool = False,
    skip: Tensor | None = None,
    offset: Tensor | None = None,
) -> Tensor:
    """The formula in torch on any device; arguments and result as in `group_norm`."""
    values = (x if skip is None else torch.cat([x, skip], dim=-1)).float()
    if offset is not None:
        values = values + offset
    normed = F.group_norm(values.permute(0, 3, 1, 2), groups, weight, bias, eps)
    return (F.silu(normed) if silu else normed).permute(0, 2, 3, 1).to(x.dtype).contiguous()


def _validate(x: Tensor, weight: Tensor, bias: Tensor, groups: int, skip: Tensor | None, offset: Tensor | None) -> None:
    if x.ndim != 4 or not x.is_floating_point() or not x.is_contiguous() or 0 in x.shape[1:]:
        raise ShapeError("x", f"{x.dtype} {tuple(x.shape)}", "contiguous floating point (n, h, w, c)")
    channels = x.shape[3]
    if skip is not None:
        if skip.shape[:3] != x.shape[:3] or skip.ndim != 4 or skip.dtype != x.dtype or not skip.is_contiguous():
            raise ShapeError("skip", f"{skip.dtype} {tuple(skip.shape)}", f"contiguous {x.dtype} like x, but for c")
        channels += skip.shape[3]
    for name, values in (("weight", weight), ("bias", bias), ("offset", offset)):
        if values is not None and (values.shape != (channels,) or values.dtype != torch.float32):
            raise ShapeError(name, f"{values.dtype} {tuple(values.shape)}", f"float32 ({channels},)")
    if groups < 1 or channels % groups:
        raise InvalidInputError("groups", str(groups), f"a divisor of {channels}")
