"""Convolutions of flat picture stacks (`kernels.conv.flat_maps`) with what follows them in the same pass.

Weights are (out, kernel * kernel * in), tap after tap in reading order, channels within a tap: `pack_weight` makes them. Sums are
fp32 whatever the type of the operands, and so is everything that follows until the store.

`flat_convolution`: y = leaky(x * w + bias + residual) * row_scale, and on request the statistics that instance norm needs.
`flat_modulated_convolution`: SPADE's scale and shift, which are convolutions of a shared map, applied where they are computed:
y = leaky((z - mean) * rstd * (1 + gamma) + beta); neither gamma nor beta is ever stored.

The `_torch` functions are the reference and the CPU path; CUDA tensors take `kernels.conv.flat_convolution_triton`. Inference only.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.conv.flat_maps import FlatShape, from_flat, to_flat
from kernels.conv.instance_norm import Normed, Statistics, statistics_torch
from kernels.errors import ShapeError


def pack_weight(weight: Tensor) -> Tensor:
    """(out, in, k, k) -> (out, k * k * in), contiguous."""
    return weight.permute(0, 2, 3, 1).flatten(1).contiguous()


def interleave_modulation(gamma: Tensor, beta: Tensor) -> Tensor:
    """(c, ...) and (c, ...) -> (2 c, ...), gamma and beta of a channel side by side."""
    return torch.stack([gamma, beta], dim=1).flatten(0, 1).contiguous()


def flat_convolution(
    x: Tensor,
    weight: Tensor,
    shape: FlatShape,
    kernel: int,
    *,
    bias: Tensor | None = None,
    slope: float = 1.0,
    residual: Tensor | None = None,
    row_scale: Tensor | None = None,
    planes: int = 1,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Convolve, zero padding, stride 1.

    Args:
        x: (rows, in).
        weight: (out, kernel * kernel * in), type of `x`.
        shape: Extent of `x`.
        kernel: 1 or 3.
        bias: float32 (out,).
        slope: Factor of values below zero; 0 is ReLU, 1 changes nothing.
        residual: (rows, out), added before the activation.
        row_scale: float32 (rows,), multiplied after the activation.
        planes: Store the outputs as that many contiguous stacks of out / planes channels.
        dtype: Type of the result; None takes `x`'s.

    Returns:
        (rows, out), or (planes, rows, out / planes); zeros between the pictures.

    Raises:
        ShapeError: Operands that do not fit.
    """
    _validate(x, weight, shape, kernel)
    if residual is not None:
        shape.check("residual", residual)
    if weight.shape[0] % planes:
        raise ShapeError("planes", str(planes), f"a divisor of {weight.shape[0]}")
    plain = bias is None and residual is None and row_scale is None and slope == 1.0 and planes == 1
    if kernel == 1 and plain and dtype in (None, x.dtype):
        return torch.mm(x, weight.T)  # zero rows give zero rows
    if x.device.type != "cpu" and _triton_is_there():
        from kernels.conv.flat_convolution_triton import convolve

        return convolve(x, weight, shape, kernel, bias, slope, residual, row_scale, planes, dtype or x.dtype)
    return flat_convolution_torch(
        x,
        weight,
        shape,
        kernel,
        bias=bias,
        slope=slope,
        residual=residual,
        row_scale=row_scale,
        planes=planes,
        dtype=dtype,
    )


def flat_convolution_with_statistics(
    x: Tensor, weight: Tensor, shape: FlatShape, kernel: int, *, residual: Tensor | None = None
) -> tuple[Tensor, Statistics]:
    """`flat_convolution` without bias (instance norm removes it) and the statistics of its result."""
    _validate(x, weight, shape, kernel)
    if x.device.type != "cpu" and _triton_is_there():
        from kernels.conv.flat_convolution_triton import convolve
        from kernels.conv.flat_statistics_triton import statistics

        out = convolve(x, weight, shape, kernel, None, 1.0, residual, None, 1, x.dtype)
        return out, statistics(out, shape)
    out = flat_convolution_torch(x, weight, shape, kernel, residual=residual)
    return out, statistics_torch(out, shape)


def flat_modulated_convolution(
    x: Tensor, weight: Tensor, bias: Tensor, shape: FlatShape, normed: Normed, *, slope: float = 1.0, shift: bool = True
) -> Tensor:
    """SPADE with a 3 x 3 kernel.

    Args:
        x: The shared map (rows, in).
        weight: (2 c, 9 * in), gamma and beta interleaved; without `shift` (c, 9 * in), gamma alone.
        bias: float32 (2 c,) or (c,), the 1 of 1 + gamma not included.
        shape: Extent of `x` and of the result.
        normed: What is scaled and shifted, c channels.
        slope: See `flat_convolution`.
        shift: Whether there is a beta.

    Returns:
        (rows, c), type of `x`.

    Raises:
        ShapeError: Operands that do not fit.
    """
    _validate(x, weight, shape, 3)
    normed.shape.check("normed", normed.flat)
    if normed.shape.scaled(normed.scale) != shape:
        raise ShapeError("normed", f"{normed.shape} x {normed.scale}", str(shape))
    if weight.shape[0] != normed.flat.shape[1] * (2 if shift else 1):
        raise ShapeError("weight", str(tuple(weight.shape)), f"{normed.flat.shape[1]} channels, interleaved")
    if x.device.type != "cpu" and _triton_is_there():
        from kernels.conv.flat_convolution_triton import modulate

        return modulate(x, weight, bias, shape, normed, slope, shift)
    return flat_modulated_convolution_torch(x, weight, bias, shape, normed, slope=slope, shift=shift)


def flat_convolution_torch(
    x: Tensor,
    weight: Tensor,
    shape: FlatShape,
    kernel: int,
    *,
    bias: Tensor | None = None,
    slope: float = 1.0,
    residual: Tensor | None = None,
    row_scale: Tensor | None = None,
    planes: int = 1,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """`flat_convolution` in plain torch."""
    y = _convolved(x, weight, shape, kernel).float()
    if bias is not None:
        y = y + bias.float()
    if residual is not None:
        y = y + from_flat(residual, shape).float()
    y = F.leaky_relu(y, slope) if slope != 1.0 else y
    if row_scale is not None:
        y = y * from_flat(row_scale[:, None], shape)
    flat = to_flat(y.to(dtype or x.dtype))
    return flat if planes == 1 else flat.reshape(shape.rows, planes, -1).transpose(0, 1).contiguous()


def flat_modulated_convolution_torch(
    x: Tensor, weight: Tensor, bias: Tensor, shape: FlatShape, normed: Normed, *, slope: float = 1.0, shift: bool = True
) -> Tensor:
    """`flat_modulated_convolution` in plain torch."""
    raw = _convolved(x, weight, shape, 3).float() + bias.float()
    parts = raw.reshape(*raw.shape[:-1], -1, 2 if shift else 1)
    statistics = normed.statistics
    z = from_flat(normed.flat, normed.shape).float()
    z = (z - statistics.mean[:, None, None]) * statistics.rstd[:, None, None]
    z = z.repeat_interleave(normed.scale, dim=1).repeat_interleave(normed.scale, dim=2)
    y = z * (1.0 + parts[..., 0])
    if shift:
        y = y + parts[..., 1]
    return to_flat(F.leaky_relu(y, slope).to(x.dtype))


def _convolved(x: Tensor, weight: Tensor, shape: FlatShape, kernel: int) -> Tensor:
    """(b, h, w, out)."""
    square = weight.reshape(weight.shape[0], kernel, kernel, -1).permute(0, 3, 1, 2)
    y = F.conv2d(from_flat(x, shape).permute(0, 3, 1, 2), square, padding=kernel // 2)
    return y.permute(0, 2, 3, 1)


def _validate(x: Tensor, weight: Tensor, shape: FlatShape, kernel: int) -> None:
    shape.check("x", x)
    if kernel not in (1, 3):
        raise ShapeError("kernel", str(kernel), "1 or 3")
    if weight.dim() != 2 or weight.shape[1] != kernel * kernel * x.shape[1] or weight.dtype != x.dtype:
        got = f"{weight.dtype} {tuple(weight.shape)}"
        raise ShapeError("weight", got, f"{x.dtype} (out, {kernel * kernel * x.shape[1]})")


def _triton_is_there() -> bool:
    import importlib.util

    return importlib.util.find_spec("triton") is not None
