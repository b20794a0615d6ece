"""The end of a denoising step in one pass: guidance, the last projection, and DDIM's update.

    m = h[conditional] * w + h[unconditional] * (1 - w)      guidance; exact, because the projection is affine
    x0 = m W^T + bias
    x' = a x0 + b x + c noise                                (a, b, c) of the step; (1, 0, 0) at the last one

`ddim_project_torch` is the reference and the CPU path; CUDA tensors take `kernels.lmdm.ddim_project_triton`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.errors import ShapeError

Update = tuple[float, float, float]
"""Weights of x0, x and the noise."""


def ddim_project(
    h: Tensor, weight: Tensor, bias: Tensor, x: Tensor, noise: Tensor, update: Update, guidance: float | None
) -> Tensor:
    """Project and update in one step of the sampler.

    Args:
        h: float32 (2 b, length, k), contiguous, conditional items first; (b, length, k) where `guidance` is None.
        weight: (n, k), contiguous, float32, float16 or bfloat16.
        bias: float32 (n,).
        x: float32 (b, length, n), contiguous; the noisy motion.
        noise: float32 (b, length, n); items may be strided.
        update: Weights of x0, x and the noise.
        guidance: w; None: no guidance.

    Returns:
        float32 (b, length, n), new.

    Raises:
        ShapeError: The tensors do not fit together.
    """
    _validate(h, weight, x, noise, guidance)
    if h.device.type == "cpu":
        return ddim_project_torch(h, weight, bias, x, noise, update, guidance)
    from kernels.lmdm.ddim_project_triton import launch  # here, so that Triton is loaded on a GPU only

    return launch(h, weight, bias, x, noise, update, guidance)


def ddim_project_torch(
    h: Tensor, weight: Tensor, bias: Tensor, x: Tensor, noise: Tensor, update: Update, guidance: float | None
) -> Tensor:
    """The formula in torch on any device; arguments and result as in `ddim_project`."""
    mixed = h if guidance is None else torch.lerp(h[len(x) :], h[: len(x)], guidance)
    clean = F.linear(mixed.to(weight.dtype), weight, bias.to(weight.dtype)).float()
    a, b, c = update
    return a * clean + b * x + c * noise


def _validate(h: Tensor, weight: Tensor, x: Tensor, noise: Tensor, guidance: float | None) -> None:
    if x.ndim != 3 or x.dtype != torch.float32 or not x.is_contiguous():
        raise ShapeError("x", f"{x.dtype} {tuple(x.shape)}", "contiguous float32 (b, length, n)")
    batch, length, n = x.shape
    branches = 1 if guidance is None else 2
    if h.ndim != 3 or h.shape[:2] != (branches * batch, length) or h.dtype != torch.float32 or not h.is_contiguous():
        raise ShapeError("h", f"{h.dtype} {tuple(h.shape)}", f"contiguous float32 ({branches * batch}, {length}, k)")
    if weight.shape != (n, h.shape[2]):
        raise ShapeError("weight", str(tuple(weight.shape)), str((n, h.shape[2])))
    if noise.shape != x.shape or noise.dtype != torch.float32 or noise.stride()[1:] != (n, 1):
        raise ShapeError("noise", f"{noise.dtype} {tuple(noise.shape)}", f"float32 {tuple(x.shape)}, rows contiguous")
