"""Bilinear resize of a batch of pictures.

Pixel centres at half integers (`align_corners=False`): output pixel i samples source position (i + 0.5) * in / out - 0.5,
clamped to the picture, in fp32, rounded half up. No low-pass filter: below half size it aliases, as OpenCV's and torch's plain
bilinear do.

`resize_bilinear_torch` is the reference and the CPU path; CUDA tensors take `kernels.sampling.resize_bilinear_triton`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels.errors import InvalidInputError, ShapeError
from kernels.nv12.from_rgb import round_to_u8

MAX_CHANNELS = 4


def resize_bilinear_batch(pictures: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Resize every picture of a batch.

    Args:
        pictures: uint8 (n, h, w, c), 1 to 4 channels in any colour order; n may be 0.
        height: Rows of the result.
        width: Columns.

    Returns:
        uint8 (n, height, width, c), contiguous, on the same device; within 1 level of float64.

    Raises:
        ShapeError: Wrong rank, channel count or dtype, or an empty side.
        InvalidInputError: A target size below 1.
    """
    _validate(pictures, height, width)
    if pictures.device.type == "cpu" or len(pictures) == 0:
        return resize_bilinear_torch(pictures, height, width)
    from kernels.sampling.resize_bilinear_triton import resize  # here, so that Triton is loaded on a GPU only

    return resize(pictures, height, width)


def resize_bilinear_torch(pictures: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """The formula in plain torch on any device; arguments, result and errors as in `resize_bilinear_batch`."""
    _validate(pictures, height, width)
    n, _, _, channels = pictures.shape
    if n == 0:
        return torch.empty((0, height, width, channels), dtype=torch.uint8, device=pictures.device)
    planes = pictures.permute(0, 3, 1, 2).to(torch.float32)
    resized = F.interpolate(planes, size=(height, width), mode="bilinear", align_corners=False)
    return round_to_u8(resized).permute(0, 2, 3, 1).contiguous()


def _validate(pictures: torch.Tensor, height: int, width: int) -> None:
    shape = tuple(pictures.shape)
    if pictures.ndim != 4 or pictures.dtype != torch.uint8 or 0 in shape[1:] or shape[3] > MAX_CHANNELS:
        raise ShapeError("pictures", f"{pictures.dtype} {shape}", "uint8 (n, h, w, c), h, w >= 1, 1 <= c <= 4")
    if height < 1 or width < 1:
        raise InvalidInputError("height, width", f"{height}, {width}", "1 or more")
