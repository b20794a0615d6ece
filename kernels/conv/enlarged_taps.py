"""A 3 x 3 convolution of a picture that was enlarged by repeating its places, without the enlarged picture.

Every place of the enlarged picture reads nine neighbours, which are repeats of few small places. So the nine products are made once
per *small* place (one 1 x 1 convolution with 9 c outputs, tap after tap in reading order), and here they are added up: exactly the
convolution, with 1 / scale**2 of its multiplications.

`enlarged_taps_torch` is the reference and the CPU path; CUDA tensors take `kernels.conv.enlarged_taps_triton`. Stacks are flat
(`kernels.conv.flat_maps`).
"""

from __future__ import annotations

import importlib.util

import torch
from torch import Tensor

from kernels.conv.flat_maps import FlatShape, from_flat, to_flat
from kernels.errors import ShapeError

TAPS = 9


def enlarged_taps(products: Tensor, bias: Tensor, shape: FlatShape, scale: int, first: int = 0) -> Tensor:
    """relu(sum of taps + bias).

    Args:
        products: (rows, columns), the small places' products; this convolution's are the 9 c columns from `first` on.
        bias: float32 (c,).
        shape: Extent of the small pictures.
        scale: 2 or 4.
        first: First column.

    Returns:
        (rows of the enlarged pictures, c), type of `products`.

    Raises:
        ShapeError: Operands that do not fit.
    """
    shape.check("products", products)
    channels = bias.shape[0]
    if scale not in (2, 4) or first < 0 or first + TAPS * channels > products.shape[1]:
        got = f"{tuple(products.shape)}, columns from {first}, scale {scale}"
        raise ShapeError("products", got, f"{TAPS * channels} columns, scale 2 or 4")
    if products.device.type != "cpu" and importlib.util.find_spec("triton") is not None:
        from kernels.conv.enlarged_taps_triton import add_up

        return add_up(products, bias, shape, scale, first)
    return enlarged_taps_torch(products, bias, shape, scale, first)


def enlarged_taps_torch(products: Tensor, bias: Tensor, shape: FlatShape, scale: int, first: int = 0) -> Tensor:
    """`enlarged_taps` in plain torch."""
    channels = bias.shape[0]
    small = from_flat(products[:, first : first + TAPS * channels], shape).float()
    height, width = shape.height * scale, shape.width * scale
    total = bias.float().expand(shape.batch, height, width, channels).clone()
    for tap in range(TAPS):
        large = small[..., tap * channels : (tap + 1) * channels]
        large = large.repeat_interleave(scale, dim=1).repeat_interleave(scale, dim=2)
        edged = torch.nn.functional.pad(large, (0, 0, 1, 1, 1, 1))
        total += edged[:, tap // 3 : tap // 3 + height, tap % 3 : tap % 3 + width]
    return to_flat(torch.relu(total).to(products.dtype))
