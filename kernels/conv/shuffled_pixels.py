"""The last step of a sub-pixel decoder: 12 logits per place -> a 2 x 2 block of RGB pixels, through a sigmoid.

Logit c * 4 + i * 2 + j of place (y, x) is channel c of pixel (2 y + i, 2 x + j), the order of `torch.nn.PixelShuffle`. The stack is
flat (`kernels.conv.flat_maps`). `shuffled_pixels_torch` is the reference and the CPU path.
"""

from __future__ import annotations

import importlib.util

import torch
from torch import Tensor

from kernels.conv.flat_maps import FlatShape, from_flat
from kernels.errors import ShapeError

LOGITS = 12


def shuffled_pixels(logits: Tensor, shape: FlatShape) -> Tensor:
    """Pixels, rounded half up.

    Args:
        logits: (rows, 12 or more), further columns are not read.
        shape: Extent.

    Returns:
        uint8 (batch, 2 height, 2 width, 3), RGB.

    Raises:
        ShapeError: Logits that do not fit.
    """
    shape.check("logits", logits)
    if logits.shape[1] < LOGITS:
        raise ShapeError("logits", str(tuple(logits.shape)), f"at least {LOGITS} columns")
    if logits.device.type != "cpu" and importlib.util.find_spec("triton") is not None:
        from kernels.conv.shuffled_pixels_triton import shuffle

        return shuffle(logits, shape)
    return shuffled_pixels_torch(logits, shape)


def shuffled_pixels_torch(logits: Tensor, shape: FlatShape) -> Tensor:
    """`shuffled_pixels` in plain torch."""
    picture = shuffled_picture(logits, shape).permute(0, 2, 3, 1)
    return torch.floor(picture * 255.0 + 0.5).to(torch.uint8).contiguous()


def shuffled_picture(logits: Tensor, shape: FlatShape) -> Tensor:
    """The same as float32 (batch, 3, 2 height, 2 width) in 0..1, not rounded; for measuring."""
    places = from_flat(logits, shape)[..., :LOGITS].permute(0, 3, 1, 2).float()
    return torch.sigmoid(torch.nn.functional.pixel_shuffle(places, 2))
