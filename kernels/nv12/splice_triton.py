"""Triton bodies of `nv12_splice`: one launch, every face byte read once, every canvas byte written once.

Two bodies:

* `_splice_kernel`, any dtype, strides and offset. A program takes ROWS chroma rows of BLOCK_W canvas columns, starting at the
  even canvas pixel at or before the rectangle. Canvas strides and offsets arrive in units of ALIGN bytes, so that the compiler
  can prove that its byte stores line up and joins them into wide ones.
* `_splice_words_kernel`, uint8 NHWC on 4-byte aligned even rectangles: a thread reads four pixels as three 32-bit words from
  each of two lines and writes four Y of each line and two U V pairs as one word each. Byte loads at a stride of three would
  cost four times as many instructions.

Masks: columns and lines of the tile that lie outside the rectangle. Casts: 64-bit batch offsets, because 1000 canvases pass
2^31.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from kernels.nv12.blocks_triton import block_value, device_of, interleave, to_u8, weigh
from kernels.nv12.colour import ColourMatrix


@dataclass(frozen=True)
class Tiling:
    """How a launch is cut; chosen by measurement (docs/performance.md).

    Attributes:
        block_w: Columns per program, a power of two: pixels, or words of four pixels.
        rows: Chroma rows per program, a power of two.
        warps: Warps per program.
    """

    block_w: int
    rows: int
    warps: int


PIXELS = Tiling(block_w=128, rows=4, warps=4)
WORDS = Tiling(block_w=64, rows=1, warps=2)


@triton.jit
def _load_line(pointer, stride_c, inside, scale):
    red = tl.load(pointer, mask=inside, other=0).to(tl.float32) * scale
    green = tl.load(pointer + stride_c, mask=inside, other=0).to(tl.float32) * scale
    blue = tl.load(pointer + 2 * stride_c, mask=inside, other=0).to(tl.float32) * scale
    # compared, not tl.maximum: NaN is not above 0 and counts as black, as in the reference; Triton 3.7's interpreter keeps a NaN
    red = tl.minimum(tl.where(red > 0.0, red, 0.0), 255.0)
    green = tl.minimum(tl.where(green > 0.0, green, 0.0), 255.0)
    blue = tl.minimum(tl.where(blue > 0.0, blue, 0.0), 255.0)
    return red, green, blue


@triton.jit
def _splice_kernel(
    face_ptr,
    canvas_ptr,
    stride_n,
    stride_c,
    stride_h,
    stride_w,
    canvas_n,
    canvas_h,
    y_start,
    uv_start,
    width,
    height,
    left,
    top,
    scale,
    yr,
    yg,
    yb,
    ur,
    ug,
    ub,
    vr,
    vg,
    vb,
    y_offset,
    ALIGN: tl.constexpr,
    PARTIAL: tl.constexpr,
    TOP_LEFT: tl.constexpr,
    BLOCK_W: tl.constexpr,
    ROWS: tl.constexpr,
):
    item = tl.program_id(2).to(tl.int64)
    columns = tl.program_id(0) * BLOCK_W + tl.arange(0, BLOCK_W)[None, :]
    block_rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    face_x, even, odd = columns - left, 2 * block_rows - top, 2 * block_rows - top + 1
    in_x = (face_x >= 0) & (face_x < width)
    in_even = in_x & (even >= 0) & (even < height)
    in_odd = in_x & (odd >= 0) & (odd < height)

    face = face_ptr + item * stride_n + face_x * stride_w
    r0, g0, b0 = _load_line(face + even * stride_h, stride_c, in_even, scale)
    r1, g1, b1 = _load_line(face + odd * stride_h, stride_c, in_odd, scale)

    canvas = canvas_ptr + item * (canvas_n * ALIGN)
    luma = canvas + y_start * ALIGN + 2 * block_rows * (canvas_h * ALIGN) + columns
    tl.store(luma, to_u8(weigh(r0, g0, b0, yr, yg, yb) + y_offset), mask=in_even)
    tl.store(luma + canvas_h * ALIGN, to_u8(weigh(r1, g1, b1, yr, yg, yb) + y_offset), mask=in_odd)

    red = block_value(r0, r1, TOP_LEFT, ROWS, BLOCK_W)
    green = block_value(g0, g1, TOP_LEFT, ROWS, BLOCK_W)
    blue = block_value(b0, b1, TOP_LEFT, ROWS, BLOCK_W)
    uv = interleave(weigh(red, green, blue, ur, ug, ub), weigh(red, green, blue, vr, vg, vb), ROWS, BLOCK_W) + 128.0
    chroma = canvas + uv_start * ALIGN + block_rows * (canvas_h * ALIGN) + columns
    if PARTIAL:
        # the left (even) column of this sample's block, and the right one, in face coordinates
        block_x = (columns // 2) * 2 - left
        in_left = (block_x >= 0) & (block_x < width)
        in_right = (block_x + 1 >= 0) & (block_x + 1 < width)
        even_line = (even >= 0) & (even < height)
        odd_line = (odd >= 0) & (odd < height)
        if TOP_LEFT:
            tl.store(chroma, to_u8(uv), mask=in_left & even_line)
        else:
            count = (in_left.to(tl.float32) + in_right.to(tl.float32)) * (
                even_line.to(tl.float32) + odd_line.to(tl.float32)
            )
            before = tl.load(chroma, mask=(count > 0) & (count < 4), other=128).to(tl.float32)
            tl.store(chroma, to_u8(uv + (1.0 - 0.25 * count) * (before - 128.0)), mask=count > 0)
    else:
        tl.store(chroma, to_u8(uv), mask=in_even)


@triton.jit
def _luma_word(r0, g0, b0, r1, g1, b1, r2, g2, b2, r3, g3, b3, yr, yg, yb, y_offset):
    """Four luma values in one little-endian 32-bit word."""
    y0 = to_u8(weigh(r0, g0, b0, yr, yg, yb) + y_offset).to(tl.uint32)
    y1 = to_u8(weigh(r1, g1, b1, yr, yg, yb) + y_offset).to(tl.uint32)
    y2 = to_u8(weigh(r2, g2, b2, yr, yg, yb) + y_offset).to(tl.uint32)
    y3 = to_u8(weigh(r3, g3, b3, yr, yg, yb) + y_offset).to(tl.uint32)
    return (y0 | (y1 << 8) | (y2 << 16) | (y3 << 24)).to(tl.int32, bitcast=True)


@triton.jit
def _byte(word, INDEX: tl.constexpr):
    return ((word >> (8 * INDEX)) & 255).to(tl.float32)


@triton.jit
def _four_pixels(pointer, inside):
    """R G B of four pixels from three 32-bit words."""
    a = tl.load(pointer, mask=inside, other=0)
    b = tl.load(pointer + 1, mask=inside, other=0)
    c = tl.load(pointer + 2, mask=inside, other=0)
    return (
        _byte(a, 0), _byte(a, 1), _byte(a, 2), _byte(a, 3), _byte(b, 0), _byte(b, 1),
        _byte(b, 2), _byte(b, 3), _byte(c, 0), _byte(c, 1), _byte(c, 2), _byte(c, 3),
    )  # fmt: skip


@triton.jit
def _splice_words_kernel(
    face_ptr,
    canvas_ptr,
    stride_n,
    stride_h,
    canvas_n,
    canvas_h,
    y_start,
    uv_start,
    words,
    block_height,
    yr,
    yg,
    yb,
    ur,
    ug,
    ub,
    vr,
    vg,
    vb,
    y_offset,
    TOP_LEFT: tl.constexpr,
    BLOCK_W: tl.constexpr,
    ROWS: tl.constexpr,
):
    item = tl.program_id(2).to(tl.int64)
    columns = tl.program_id(0) * BLOCK_W + tl.arange(0, BLOCK_W)[None, :]
    block_rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = (columns < words) & (block_rows < block_height)

    face = face_ptr + item * stride_n + 2 * block_rows * stride_h + 3 * columns
    r0, g0, b0, r1, g1, b1, r2, g2, b2, r3, g3, b3 = _four_pixels(face, inside)
    s0, t0, c0, s1, t1, c1, s2, t2, c2, s3, t3, c3 = _four_pixels(face + stride_h, inside)

    canvas = canvas_ptr + item * canvas_n
    luma = canvas + y_start + 2 * block_rows * canvas_h + columns
    even = _luma_word(r0, g0, b0, r1, g1, b1, r2, g2, b2, r3, g3, b3, yr, yg, yb, y_offset)
    odd = _luma_word(s0, t0, c0, s1, t1, c1, s2, t2, c2, s3, t3, c3, yr, yg, yb, y_offset)
    tl.store(luma, even, mask=inside)
    tl.store(luma + canvas_h, odd, mask=inside)
    if not TOP_LEFT:
        r0, g0, b0 = (r0 + r1 + s0 + s1) * 0.25, (g0 + g1 + t0 + t1) * 0.25, (b0 + b1 + c0 + c1) * 0.25
        r2, g2, b2 = (r2 + r3 + s2 + s3) * 0.25, (g2 + g3 + t2 + t3) * 0.25, (b2 + b3 + c2 + c3) * 0.25
    u0 = to_u8(weigh(r0, g0, b0, ur, ug, ub) + 128.0).to(tl.uint32)
    v0 = to_u8(weigh(r0, g0, b0, vr, vg, vb) + 128.0).to(tl.uint32)
    u1 = to_u8(weigh(r2, g2, b2, ur, ug, ub) + 128.0).to(tl.uint32)
    v1 = to_u8(weigh(r2, g2, b2, vr, vg, vb) + 128.0).to(tl.uint32)
    pairs = (u0 | (v0 << 8) | (u1 << 16) | (v1 << 24)).to(tl.int32, bitcast=True)
    tl.store(canvas + uv_start + block_rows * canvas_h + columns, pairs, mask=inside)


def splice(
    planar: torch.Tensor,
    canvas: torch.Tensor,
    x: int,
    y: int,
    scale: float,
    matrix: ColourMatrix,
    chroma: str,
    *,
    tiling: Tiling | None = None,
    words: bool | None = None,
) -> torch.Tensor:
    """Launch; arguments as validated by `kernels.nv12.splice`, `planar` (n, 3, h, w) of any strides.

    Args:
        planar: The face.
        canvas: NV12 canvases, written in place.
        x: Left edge.
        y: Top edge.
        scale: Factor from the face's values to 0..255.
        matrix: Colour standard and range.
        chroma: `mean` or `top_left`.
        tiling: How to cut; None takes the measured default.
        words: Which body; None takes words where they fit.

    Returns:
        `canvas`.
    """
    fits = words_fit(planar, canvas, x, y)
    with device_of(canvas):
        if fits if words is None else words:
            _launch_words(planar, canvas, x, y, matrix, chroma, tiling or WORDS)
        else:
            _launch_pixels(planar, canvas, x, y, scale, matrix, chroma, tiling or PIXELS)
    return canvas


def words_fit(planar: torch.Tensor, canvas: torch.Tensor, x: int, y: int) -> bool:
    """Whether face and rectangle are made of whole, aligned 32-bit words: uint8, pixels packed, everything divisible by 4."""
    n, _, h, w = planar.shape
    packed = planar.dtype == torch.uint8 and planar.stride(1) == 1 and planar.stride(3) == 3
    if not packed or y % 2 or h % 2:
        return False
    numbers = (
        planar.data_ptr(), planar.stride(0), planar.stride(2),
        canvas.data_ptr(), canvas.stride(0), canvas.stride(1), x, w,
    )  # fmt: skip
    return all(number % 4 == 0 for number in numbers)


def matrix_scalars(matrix: ColourMatrix) -> tuple[float, ...]:
    """The nine coefficients by rows and the luma offset."""
    return (*(float(value) for value in matrix.rgb_to_yuv.ravel()), float(matrix.offset[0]))


def _launch_pixels(
    planar: torch.Tensor,
    canvas: torch.Tensor,
    x: int,
    y: int,
    scale: float,
    matrix: ColourMatrix,
    chroma: str,
    tiling: Tiling,
) -> None:
    n, _, h, w = planar.shape
    left, top = x % 2, y % 2
    stride_n, stride_h = canvas.stride(0), canvas.stride(1)
    y_start = (y - top) * stride_h + x - left
    uv_start = (canvas.shape[1] // 3 * 2 + (y - top) // 2) * stride_h + x - left
    align = math.gcd(16, canvas.data_ptr(), stride_n, stride_h, y_start, uv_start)
    grid = (triton.cdiv(w + left, tiling.block_w), triton.cdiv(triton.cdiv(h + top, 2), tiling.rows), n)
    constants: dict[str, Any] = {
        "ALIGN": align,
        "PARTIAL": bool(left or top or (x + w) % 2 or (y + h) % 2),
        "TOP_LEFT": chroma == "top_left",
        "BLOCK_W": tiling.block_w,
        "ROWS": tiling.rows,
        "num_warps": tiling.warps,
    }
    _splice_kernel[grid](
        planar,
        canvas,
        *planar.stride(),
        stride_n // align,
        stride_h // align,
        y_start // align,
        uv_start // align,
        w,
        h,
        left,
        top,
        scale,
        *matrix_scalars(matrix),
        **constants,
    )


def _launch_words(
    planar: torch.Tensor, canvas: torch.Tensor, x: int, y: int, matrix: ColourMatrix, chroma: str, tiling: Tiling
) -> None:
    n, _, h, w = planar.shape
    face_words = _as_words(planar.permute(0, 2, 3, 1))
    canvas_words = _as_words(canvas)
    stride_n, stride_h = canvas.stride(0) // 4, canvas.stride(1) // 4
    y_start = y * stride_h + x // 4
    uv_start = (canvas.shape[1] // 3 * 2 + y // 2) * stride_h + x // 4
    grid = (triton.cdiv(w // 4, tiling.block_w), triton.cdiv(h // 2, tiling.rows), n)
    _splice_words_kernel[grid](
        face_words,
        canvas_words,
        planar.stride(0) // 4,
        planar.stride(2) // 4,
        stride_n,
        stride_h,
        y_start,
        uv_start,
        w // 4,
        h // 2,
        *matrix_scalars(matrix),
        TOP_LEFT=chroma == "top_left",
        BLOCK_W=tiling.block_w,
        ROWS=tiling.rows,
        num_warps=tiling.warps,
    )


def _as_words(tensor: torch.Tensor) -> torch.Tensor:
    """An int32 tensor that starts at the same byte; only its address is used."""
    storage = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
    flat = storage[tensor.storage_offset() :]
    return flat[: len(flat) // 4 * 4].view(torch.int32)
