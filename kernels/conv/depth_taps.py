"""The depth direction of 3-D convolutions whose other two directions were done slice by slice.

A k x k x k convolution is one 2-D convolution of every slice with k * c outputs (the c outputs of depth tap 0 first), then
y[d] = sum over taps of products[d + tap - k // 2, tap]; slices outside count as zero. What follows is done in the same pass.

Volumes are channels-last, (batch, depth, height, width, channels). The `_torch` functions are the reference and the CPU path; CUDA
tensors take `kernels.conv.depth_taps_triton`.
"""

from __future__ import annotations

import importlib.util

import torch
from torch import Tensor

from kernels.errors import ShapeError

TAPS = 3
PHASES = 4


def depth_taps(products: Tensor, bias: Tensor, *, pool: bool, skip: Tensor | None = None) -> Tensor:
    """relu(sum of the three taps + bias), averaged over 2 x 2 places where `pool`.

    Args:
        products: (b, d, h, w, 3 c), contiguous.
        bias: float32 (c,).
        pool: Halve height and width.
        skip: A wider volume whose last c channels receive a copy.

    Returns:
        (b, d, h, w, c), or half as high and wide; type of `products`.

    Raises:
        ShapeError: Operands that do not fit.
    """
    channels = bias.shape[0]
    if products.dim() != 5 or products.shape[4] != TAPS * channels or not products.is_contiguous():
        raise ShapeError("products", str(tuple(products.shape)), f"contiguous (b, d, h, w, {TAPS * channels})")
    batch, depth, height, width, _ = products.shape
    size = (batch, depth, height // 2, width // 2) if pool else (batch, depth, height, width)
    if skip is not None and (skip.shape[:4] != size or skip.shape[4] < channels or not skip.is_contiguous()):
        raise ShapeError("skip", str(tuple(skip.shape)), f"contiguous ({size}, >= {channels})")
    if products.device.type != "cpu" and importlib.util.find_spec("triton") is not None:
        from kernels.conv.depth_taps_triton import add_up

        return add_up(products, bias, pool, skip)
    return depth_taps_torch(products, bias, pool=pool, skip=skip)


def folded_depth_taps(products: Tensor, bias: Tensor, fold: int) -> Tensor:
    """`depth_taps` without pooling, each place with its neighbours in x: the input of a `fold` wide kernel as a 1 wide one.

    A wide kernel over few channels leaves matrix units idle and falls to slower convolution kernels; one column of `fold` times the
    channels does not.

    Args:
        products: See `depth_taps`.
        bias: float32 (c,).
        fold: Odd width of the kernel to come.

    Returns:
        (b, d, h, w, fold * c): value j of place x is that of place x + j - fold // 2, zeros outside.

    Raises:
        ShapeError: Operands that do not fit.
    """
    channels = bias.shape[0]
    if products.dim() != 5 or products.shape[4] != TAPS * channels or not products.is_contiguous() or fold % 2 == 0:
        got = f"{tuple(products.shape)}, {fold}"
        raise ShapeError("products, fold", got, f"contiguous (b, d, h, w, {TAPS * channels}), odd")
    if products.device.type != "cpu" and importlib.util.find_spec("triton") is not None:
        from kernels.conv.depth_taps_triton import add_up_folded

        return add_up_folded(products, bias, fold)
    return folded_depth_taps_torch(products, bias, fold)


def folded_depth_taps_torch(products: Tensor, bias: Tensor, fold: int) -> Tensor:
    """`folded_depth_taps` in plain torch."""
    y = depth_taps_torch(products, bias, pool=False)
    width = y.shape[3]
    edged = torch.nn.functional.pad(y, (0, 0, fold // 2, fold // 2))
    return torch.cat([edged[:, :, :, j : j + width] for j in range(fold)], dim=-1)


def depth_taps_torch(products: Tensor, bias: Tensor, *, pool: bool, skip: Tensor | None = None) -> Tensor:
    """`depth_taps` in plain torch."""
    channels = bias.shape[0]
    y = torch.relu(summed(products, TAPS, channels) + bias.float())
    if pool:
        b, d, h, w, c = y.shape
        y = y.reshape(b, d, h // 2, 2, w // 2, 2, c).mean(dim=(3, 5))
    out = y.to(products.dtype)
    if skip is not None:
        skip[..., skip.shape[4] - channels :] = out
    return out


def doubled_depth_taps(products: Tensor, bias: Tensor, joined: Tensor) -> None:
    """The same for a volume that was doubled in height and width by repeating its places, without the doubled volume.

    A 3 x 3 kernel on repeated places is one of four 2 x 2 kernels on the small ones (`doubled_kernels`), according to whether the
    line and the column are even or odd. All four are computed by one padded 2 x 2 convolution.

    Args:
        products: (b, d, h + 1, w + 1, 4 * 3 * c), contiguous; phase (line, column), then tap, then channel.
        bias: float32 (c,).
        joined: (b, d, 2 h, 2 w, wide), contiguous; its first c channels receive relu(sum of taps + bias).

    Raises:
        ShapeError: Operands that do not fit.
    """
    channels = bias.shape[0]
    b, d, h, w, columns = products.shape
    fits = joined.shape[:4] == (b, d, 2 * (h - 1), 2 * (w - 1)) and joined.shape[4] >= channels
    if columns != PHASES * TAPS * channels or not fits or not (products.is_contiguous() and joined.is_contiguous()):
        got = f"{tuple(products.shape)}, {tuple(joined.shape)}"
        raise ShapeError("products, joined", got, "(b, d, h + 1, w + 1, 12 c), (b, d, 2 h, 2 w, >= c)")
    if products.device.type != "cpu" and importlib.util.find_spec("triton") is not None:
        from kernels.conv.depth_taps_triton import add_up_doubled

        add_up_doubled(products, bias, joined)
        return
    doubled_depth_taps_torch(products, bias, joined)


def doubled_depth_taps_torch(products: Tensor, bias: Tensor, joined: Tensor) -> None:
    """`doubled_depth_taps` in plain torch."""
    channels = bias.shape[0]
    height, width = products.shape[2] - 1, products.shape[3] - 1
    for phase in range(PHASES):
        line, column = divmod(phase, 2)
        part = products[..., phase * TAPS * channels : (phase + 1) * TAPS * channels]
        part = part[:, :, line : line + height, column : column + width]
        y = torch.relu(summed(part, TAPS, channels) + bias.float())
        joined[:, :, line::2, column::2, :channels] = y.to(joined.dtype)


def doubled_kernels(weight: Tensor) -> Tensor:
    """(out, in, 3, 3) -> (4, out, in, 2, 2), phase (line, column): what a kernel on repeated places does to the small ones."""

    def halves(kernel: Tensor, axis: int, odd: int) -> Tensor:
        first, second, third = kernel.unbind(axis)
        return torch.stack([first + second, third] if odd else [first, second + third], dim=axis)

    return torch.stack([halves(halves(weight, 2, line), 3, column) for line in (0, 1) for column in (0, 1)])


def summed(products: Tensor, taps: int, channels: int) -> Tensor:
    """float32 (b, d, h, w, channels): the taps' products added over depth."""
    depth, half = products.shape[1], taps // 2
    total = torch.zeros((*products.shape[:4], channels), dtype=torch.float32, device=products.device)
    for tap in range(taps):
        low, high = max(0, half - tap), min(depth, depth + half - tap)
        part = products[:, low + tap - half : high + tap - half, ..., tap * channels : (tap + 1) * channels]
        total[:, low:high] += part.float()
    return total
