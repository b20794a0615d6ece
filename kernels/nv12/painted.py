"""Painted faces into the pictures that they belong to, as NV12 rectangles: resize, blend under a mask, convert, in one pass.

For every pixel of a patch (the part of a picture that painting can change), where the face's box covers it::

    face  = the 256 x 256 face, resized to the box as OpenCV's linear resize does it in integers (weights of 11 bits)
    rgb   = rint(patch + mask * share / 255 * (face - patch))        in fp32, each operation rounded; elsewhere rgb = patch

and of those Y per pixel, U and V of the mean of each 2 x 2 block, as in `kernels.nv12.from_rgb`, in fp32, each operation rounded,
half up. Nothing is left to the compiler (no fused multiply-add), so all ways give the same bytes: `painted_nv12_torch`, which is
the reference and the CPU path, and `kernels.nv12.painted_triton`, which CUDA tensors take.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor

from kernels.arrays import U8
from kernels.errors import InvalidInputError, ShapeError
from kernels.nv12.colour import ColourMatrix, colour_matrix
from kernels.nv12.painting import Painting, resize_taps

_HORIZONTAL_BITS: Final = 4
_VERTICAL_BITS: Final = 16
"""What is cut off before and after the vertical weights; two more at the end."""


def painted_nv12(faces: Tensor, paintings: Sequence[Painting], colour: str = "bt709") -> Tensor:
    """Put faces into their pictures.

    Args:
        faces: uint8 (n, h, w, 3), RGB, contiguous.
        paintings: What goes where, on the faces' device.
        colour: `bt709` or `bt601`, limited range.

    Returns:
        uint8 (bytes,) on the faces' device, the NV12 rectangles behind each other: h rows of Y and h / 2 rows of U V U V each, to
        be taken apart by `split_nv12`.

    Raises:
        ShapeError: A tensor of another shape, type or device.
        InvalidInputError: No such face, an empty box, or an unknown colour.
    """
    matrix = colour_matrix(colour)
    _validate(faces, paintings)
    if faces.device.type == "cpu" or importlib.util.find_spec("triton") is None:
        return painted_nv12_torch(faces, paintings, colour)
    from kernels.nv12.painted_triton import paint  # here, so that Triton is loaded on a GPU only

    return paint(faces, paintings, matrix)


def painted_nv12_torch(faces: Tensor, paintings: Sequence[Painting], colour: str = "bt709") -> Tensor:
    """The formula in torch on any device; arguments, result and errors as in `painted_nv12`."""
    matrix = colour_matrix(colour)
    _validate(faces, paintings)
    parts = [_planes(painted_rgb(faces[one.face], one), matrix) for one in paintings]
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.uint8, device=faces.device)


def painted_rgb(face: Tensor, painting: Painting) -> Tensor:
    """A patch with the face in it, uint8 (h, w, 3), RGB, in torch on any device.

    Args:
        face: uint8 (h, w, 3), RGB.
        painting: Where it goes.
    """
    (high, wide), (left, top, right, bottom) = painting.size, painting.box
    rows, columns = slice(max(top, 0), min(bottom, high)), slice(max(left, 0), min(right, wide))
    made = painting.patch.clone()
    if rows.start >= rows.stop or columns.start >= columns.stop:
        return made
    inside = slice(rows.start - top, rows.stop - top), slice(columns.start - left, columns.stop - left)
    fitted = _resized(face, bottom - top, right - left, inside).float()
    below = made[rows, columns].float()
    share = painting.mask[rows, columns].float()[..., None] * painting.weight
    made[rows, columns] = torch.round(below + share * (fitted - below)).to(torch.uint8)
    return made


def nv12_bytes(high: int, wide: int) -> int:
    """Bytes of a rectangle with even sides."""
    return high * wide * 3 // 2


def split_nv12(packed: U8, high: int, wide: int) -> tuple[U8, U8]:
    """Luma (n, high, wide) and interleaved chroma (n, high / 2, wide) of rectangles of one size, as views.

    Args:
        packed: uint8 (n, nv12_bytes(high, wide)), from `painted_nv12`.
        high: Height in pixels, even.
        wide: Width, even.
    """
    luma, chroma = packed[:, : high * wide], packed[:, high * wide :]
    return luma.reshape(-1, high, wide), chroma.reshape(-1, high // 2, wide)


def _resized(face: Tensor, height: int, width: int, part: tuple[slice, slice]) -> Tensor:
    """A part of the resized face, uint8."""
    left, right, near, far = _taps_of(face.shape[1], width, part[1], face.device, across=True)
    upper, lower, high, low = _taps_of(face.shape[0], height, part[0], face.device, across=False)
    source = face.int()
    lines = source[:, left] * near[:, None] + source[:, right] * far[:, None]
    lines >>= _HORIZONTAL_BITS
    above = (lines[upper] * high[:, None, None]) >> _VERTICAL_BITS
    below = (lines[lower] * low[:, None, None]) >> _VERTICAL_BITS
    return ((above + below + 2) >> 2).to(torch.uint8)


def _taps_of(before: int, after: int, part: slice, device: torch.device, *, across: bool) -> tuple[Tensor, ...]:
    taps = torch.from_numpy(np.array(resize_taps(before, after, across=across)[part])).to(device)
    return taps[:, 0].long(), taps[:, 1].long(), taps[:, 2].contiguous(), taps[:, 3].contiguous()


def _planes(rgb: Tensor, matrix: ColourMatrix) -> Tensor:
    """NV12 of one picture, flat."""
    red, green, blue = (rgb[..., channel].float() for channel in range(3))
    luma = _weighed(red, green, blue, matrix, 0)
    mean = [(c[0::2, 0::2] + c[0::2, 1::2] + c[1::2, 0::2] + c[1::2, 1::2]) * 0.25 for c in (red, green, blue)]
    chroma = torch.stack([_weighed(mean[0], mean[1], mean[2], matrix, row) for row in (1, 2)], dim=-1)
    return torch.cat([luma.flatten(), chroma.flatten()])


def _weighed(red: Tensor, green: Tensor, blue: Tensor, matrix: ColourMatrix, row: int) -> Tensor:
    """A row of the matrix, rounded half up; values lie in 16..240 without a clamp."""
    weights = [float(value) for value in matrix.rgb_to_yuv[row]]
    total = red * weights[0] + green * weights[1] + blue * weights[2] + float(matrix.offset[row])
    return torch.floor(total + 0.5).to(torch.uint8)


def _validate(faces: Tensor, paintings: Sequence[Painting]) -> None:
    if faces.ndim != 4 or faces.dtype != torch.uint8 or faces.shape[3] != 3 or not faces.is_contiguous():
        raise ShapeError("faces", f"{faces.dtype} {tuple(faces.shape)}", "contiguous uint8 (n, h, w, 3)")
    for one in paintings:
        patch, mask = one.patch, one.mask
        got = f"{patch.dtype} {tuple(patch.shape)} under {mask.dtype} {tuple(mask.shape)}"
        shapes = patch.ndim == 3 and patch.shape[2] == 3 and mask.shape == patch.shape[:2]
        even = shapes and not (patch.shape[0] % 2 or patch.shape[1] % 2) and patch.numel() > 0
        types = patch.dtype == mask.dtype == torch.uint8 and patch.is_contiguous() and mask.is_contiguous()
        if not even or not types or patch.device != faces.device or mask.device != faces.device:
            raise ShapeError("paintings", got, f"contiguous uint8 (h, w, 3) and (h, w), even sides, on {faces.device}")
        if not 0 <= one.face < len(faces):
            raise InvalidInputError("paintings.face", str(one.face), f"0 to {len(faces) - 1}")
        if one.box[2] <= one.box[0] or one.box[3] <= one.box[1]:
            raise InvalidInputError("paintings.box", str(one.box), "left < right, top < bottom")
