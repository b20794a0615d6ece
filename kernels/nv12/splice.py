"""An RGB rectangle converted to NV12 and written straight into an NV12 canvas, in place.

For every canvas pixel inside the rectangle Y as in `kernels.nv12.colour`; for every 2x2 block of the *canvas* that it touches::

    mean      U, V of the mean of the block's pixels. A block that the rectangle covers only partly (odd offset or size), with n of
              its 4 pixels, keeps the share of its old colour that belongs to the pixels outside:
              U = 128 + sum_covered(k . rgb) / 4 + (4 - n) / 4 (U_old - 128)
    top_left  U, V of the block's top-left pixel; blocks whose top-left pixel lies outside the rectangle keep their old colour

All in fp32, rounded half up, never truncated: within 1 level of float64. Values are clamped to the RGB range first, so the
result is always legal; NaN counts as 0. An NV12 canvas is one uint8 tensor (n, H * 3 / 2, W): H rows of Y, then H / 2 rows of U
V U V.

`nv12_splice_torch` is the reference and the CPU path; CUDA tensors take `kernels.nv12.splice_triton`.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F

from kernels.errors import InvalidInputError, ShapeError
from kernels.nv12.colour import ChromaName, ColourMatrix, check_chroma, colour_matrix
from kernels.nv12.from_rgb import round_to_u8

LayoutName = Literal["nchw", "nhwc"]
FLOAT_TYPES = (torch.float16, torch.bfloat16, torch.float32)


def nv12_splice(
    face: torch.Tensor,
    canvas: torch.Tensor,
    x: int,
    y: int,
    *,
    layout: LayoutName = "nchw",
    white: float = 1.0,
    colour: str = "bt709",
    chroma: str = "mean",
) -> torch.Tensor:
    """Convert `face` and write it at (x, y) of `canvas`.

    Args:
        face: uint8, float16, bfloat16 or float32, (n, 3, h, w) or (n, h, w, 3) as `layout` says, R first, any strides.
        canvas: uint8 (n, H * 3 / 2, W), NV12 limited range, H and W even, last axis contiguous; written in place.
        x: Left edge of the rectangle in canvas pixels; odd is fine.
        y: Top edge.
        layout: Order of the axes of `face`.
        white: Value of full intensity in a float `face`: 1 or 255. For uint8 it is always 255.
        colour: `bt709` or `bt601`.
        chroma: `mean` or `top_left`.

    Returns:
        `canvas`.

    Raises:
        ShapeError: A tensor of another shape, dtype or device.
        InvalidInputError: The rectangle does not lie inside the canvas, or an unknown layout, white, colour or chroma rule.
    """
    matrix, rule = colour_matrix(colour), check_chroma(chroma)
    planar, scale = _validate(face, canvas, x, y, layout, white)
    if 0 in planar.shape:
        return canvas
    if canvas.device.type == "cpu":
        return splice_torch(planar, canvas, x, y, scale, matrix, rule)
    from kernels.nv12.splice_triton import splice  # here, so that Triton is loaded on a GPU only

    return splice(planar, canvas, x, y, scale, matrix, rule)


def nv12_splice_torch(
    face: torch.Tensor,
    canvas: torch.Tensor,
    x: int,
    y: int,
    *,
    layout: LayoutName = "nchw",
    white: float = 1.0,
    colour: str = "bt709",
    chroma: str = "mean",
) -> torch.Tensor:
    """The formula in plain torch on any device; arguments, result and errors as in `nv12_splice`."""
    matrix, rule = colour_matrix(colour), check_chroma(chroma)
    planar, scale = _validate(face, canvas, x, y, layout, white)
    return splice_torch(planar, canvas, x, y, scale, matrix, rule)


def canvas_planes(canvas: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Views of an NV12 canvas (n, H * 3 / 2, W): luma (n, H, W) and interleaved U V (n, H / 2, W)."""
    height = canvas.shape[1] // 3 * 2
    return canvas[:, :height], canvas[:, height:]


def splice_torch(
    planar: torch.Tensor, canvas: torch.Tensor, x: int, y: int, scale: float, matrix: ColourMatrix, chroma: ChromaName
) -> torch.Tensor:
    """The reference over checked arguments: `planar` (n, 3, h, w), `scale` takes it to 0..255, `matrix` of either range."""
    n, _, h, w = planar.shape
    luma_plane, chroma_plane = canvas_planes(canvas)
    k = torch.tensor(np.ascontiguousarray(matrix.rgb_to_yuv), dtype=torch.float32, device=canvas.device)
    rgb = torch.nan_to_num(planar.to(torch.float32) * scale, nan=0.0, posinf=255.0, neginf=0.0).clamp_(0.0, 255.0)
    luma = torch.einsum("c,nchw->nhw", k[0], rgb)
    luma_plane[:, y : y + h, x : x + w] = round_to_u8(luma + matrix.offset[0])

    edges = (x % 2, (x + w) % 2, y % 2, (y + h) % 2)
    blocks = F.pad(rgb, edges)
    covered = F.pad(torch.ones(h, w, device=canvas.device), edges)
    rows, columns = covered.shape[0] // 2, covered.shape[1] // 2
    old = chroma_plane[:, y // 2 : y // 2 + rows, x // 2 * 2 : x // 2 * 2 + 2 * columns]
    before = old.reshape(n, rows, columns, 2).to(torch.float32)
    if chroma == "mean":
        colours = blocks.reshape(n, 3, rows, 2, columns, 2).mean(dim=(3, 5))
        kept = 1.0 - covered.reshape(rows, 2, columns, 2).mean(dim=(1, 3))
        after = torch.einsum("dc,nchw->nhwd", k[1:], colours) + 128.0 + kept[..., None] * (before - 128.0)
    else:
        fresh = torch.einsum("dc,nchw->nhwd", k[1:], blocks[:, :, ::2, ::2]) + 128.0
        after = torch.where(covered[::2, ::2, None] > 0, fresh, before)
    old.copy_(round_to_u8(after).reshape(n, rows, 2 * columns))
    return canvas


def _validate(
    face: torch.Tensor, canvas: torch.Tensor, x: int, y: int, layout: str, white: float
) -> tuple[torch.Tensor, float]:
    """The face as an (n, 3, h, w) view, and the factor that takes its values to 0..255."""
    if layout not in ("nchw", "nhwc"):
        raise InvalidInputError("layout", repr(layout)[:40], "nchw or nhwc")
    if white not in (1.0, 255.0):
        raise InvalidInputError("white", repr(white)[:40], "1 or 255")
    allowed = "uint8, float16, bfloat16 or float32 " + ("(n, 3, h, w)" if layout == "nchw" else "(n, h, w, 3)")
    got = f"{face.dtype} {tuple(face.shape)}"
    if face.ndim != 4 or (face.dtype != torch.uint8 and face.dtype not in FLOAT_TYPES):
        raise ShapeError("face", got, allowed)
    planar = face if layout == "nchw" else face.permute(0, 3, 1, 2)
    if planar.shape[1] != 3:
        raise ShapeError("face", got, allowed)
    check_canvas(canvas, planar.shape[0])
    if face.device != canvas.device:
        raise ShapeError("face", f"on {face.device}", f"on {canvas.device}, as the canvas")
    height, width = canvas.shape[1] // 3 * 2, canvas.shape[2]
    h, w = planar.shape[2:]
    if x < 0 or y < 0 or x + w > width or y + h > height:
        raise InvalidInputError("x, y", f"{w}x{h} at {x},{y}", f"a rectangle inside {width}x{height}")
    return planar, 1.0 if face.dtype == torch.uint8 else 255.0 / white


def check_canvas(canvas: torch.Tensor, n: int) -> None:
    """Refuse what is no batch of `n` NV12 canvases.

    Raises:
        ShapeError: Saying what came and what is allowed.
    """
    got = f"{canvas.dtype} {tuple(canvas.shape)}, strides {canvas.stride()}"
    allowed = f"uint8 ({n}, H * 3 / 2, W) with even H and W, last axis contiguous"
    if canvas.ndim != 3 or canvas.dtype != torch.uint8 or canvas.shape[0] != n:
        raise ShapeError("canvas", got, allowed)
    if canvas.shape[1] % 3 or canvas.shape[2] % 2 or (canvas.numel() and canvas.stride(2) != 1):
        raise ShapeError("canvas", got, allowed)
