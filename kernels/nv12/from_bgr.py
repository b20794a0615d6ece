"""Whole BGR frames to NV12, limited or full range: decoded video and camera pictures, OpenCV's channel order.

Y, U, V as in `kernels.nv12.colour`, chroma per 2x2 block as in `kernels.nv12.from_rgb`. BGR is not a second formula: it is the same
matrix with its red and blue columns exchanged.
"""

from __future__ import annotations

import torch

from kernels.nv12.colour import ColourMatrix, check_chroma, colour_matrix
from kernels.nv12.from_rgb import check_rgb_shape, convert_picture
from kernels.nv12.splice import splice_torch


def bgr_to_nv12(
    frames: torch.Tensor, *, full_range: bool = False, colour: str = "bt709", chroma: str = "mean"
) -> torch.Tensor:
    """Convert a batch.

    Args:
        frames: uint8 (n, h, w, 3), B first, h and w even, any strides; n may be 0.
        full_range: 0..255 for luma and chroma ("PC"); False: limited, 16..235 and 16..240.
        colour: `bt709` or `bt601`.
        chroma: `mean` or `top_left`.

    Returns:
        uint8 (n, h * 3 / 2, w) on the frames' device: h rows of Y, then h / 2 rows of U V U V.

    Raises:
        ShapeError: Wrong rank, channel count or dtype, or an odd or zero side.
        InvalidInputError: Unknown colour or chroma rule.
    """
    matrix, rule = _validate(frames, full_range, colour, chroma)
    n, h, w, _ = frames.shape
    nv12 = torch.empty((n, h * 3 // 2, w), dtype=torch.uint8, device=frames.device)
    if n == 0:
        return nv12
    if frames.device.type == "cpu":
        for picture, out in zip(frames.numpy(), nv12.numpy(), strict=True):
            convert_picture(picture, matrix, rule, out[:h], out[h:])
        return nv12
    from kernels.nv12.splice_triton import splice  # here, so that Triton is loaded on a GPU only

    return splice(frames.permute(0, 3, 1, 2), nv12, 0, 0, 1.0, matrix, rule)


def bgr_to_nv12_torch(
    frames: torch.Tensor, *, full_range: bool = False, colour: str = "bt709", chroma: str = "mean"
) -> torch.Tensor:
    """The reference in plain torch on any device; arguments, result and errors as in `bgr_to_nv12`."""
    matrix, rule = _validate(frames, full_range, colour, chroma)
    n, h, w, _ = frames.shape
    nv12 = torch.empty((n, h * 3 // 2, w), dtype=torch.uint8, device=frames.device)
    return splice_torch(frames.permute(0, 3, 1, 2), nv12, 0, 0, 1.0, matrix, check_chroma(rule))


def _validate(frames: torch.Tensor, full_range: bool, colour: str, chroma: str) -> tuple[ColourMatrix, str]:
    matrix = colour_matrix(colour, full_range=full_range).swap_red_and_blue()
    rule = check_chroma(chroma)
    dtype = str(frames.dtype).removeprefix("torch.")
    # a batch is asked for: a single picture is refused by its rank
    check_rgb_shape(tuple(frames.shape) if frames.ndim == 4 else (), dtype, "frames")
    return matrix, rule
