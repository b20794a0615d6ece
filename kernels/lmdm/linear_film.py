"""A linear layer, modulated by FiLM and added to the residual stream in place: the end of every sub-layer of LMDM.

    h[i, l] += shift[i] + (1 + scale[i]) * (y[i mod m, l] W^T + bias)       with FiLM
    h[i, l] += y[i mod m, l] W^T + bias                                     without

The stream is float32 whatever the weights' type. `y` may hold fewer items than `h` (one for both guidance branches).
`linear_film_torch` is the reference and the CPU path; CUDA tensors take `kernels.lmdm.linear_film_triton`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.errors import ShapeError


def linear_film(h: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None, film: Tensor | None = None) -> Tensor:
    """Update `h` in place.

    Args:
        h: float32 (g, length, n), contiguous; the residual stream.
        y: (m, length, k), contiguous, any float type; g is a multiple of m.
        weight: (n, k), contiguous, float32, float16 or bfloat16.
        bias: float32 (n,).
        film: (g, 2, n), scale and shift; the last axis contiguous.

    Returns:
        `h`.

    Raises:
        ShapeError: The tensors do not fit together.
    """
    _validate(h, y, weight, film)
    if h.device.type == "cpu":
        return linear_film_torch(h, y, weight, bias, film)
    from kernels.lmdm.linear_film_triton import launch  # here, so that Triton is loaded on a GPU only

    return launch(h, y, weight, bias, film)


def linear_film_torch(h: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None, film: Tensor | None = None) -> Tensor:
    """The formula in torch on any device; arguments and result as in `linear_film`."""
    out = F.linear(y.to(weight.dtype), weight, None if bias is None else bias.to(weight.dtype)).float()
    out = out.repeat(len(h) // len(out), 1, 1)
    if film is None:
        return h.add_(out)
    scale, shift = (part[:, None].float() for part in film.unbind(1))
    return h.copy_(torch.addcmul(h + shift, scale + 1.0, out))


def _validate(h: Tensor, y: Tensor, weight: Tensor, film: Tensor | None) -> None:
    if h.ndim != 3 or h.dtype != torch.float32 or not h.is_contiguous():
        raise ShapeError("h", f"{h.dtype} {tuple(h.shape)}", "contiguous float32 (g, length, n)")
    if y.ndim != 3 or y.shape[1] != h.shape[1] or not y.is_contiguous() or not len(y) or len(h) % len(y):
        raise ShapeError("y", str(tuple(y.shape)), f"contiguous (a divisor of {len(h)}, {h.shape[1]}, k)")
    if weight.shape != (h.shape[2], y.shape[2]):
        raise ShapeError("weight", str(tuple(weight.shape)), str((h.shape[2], y.shape[2])))
    if film is not None and (film.shape != (len(h), 2, h.shape[2]) or film.stride(2) != 1):
        raise ShapeError("film", str(tuple(film.shape)), str((len(h), 2, h.shape[2])))
