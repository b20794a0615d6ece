"""Triton body of `painted_nv12`: resize, blend and NV12 in one launch for faces of any avatars; no RGB picture is ever written.

A thread owns whole 2 x 2 blocks: a program takes ROWS chroma rows of BLOCK_W columns of one patch as four (ROWS, BLOCK_W / 2)
tiles, one per place in the block, so chroma needs no exchange between threads. What differs between pictures travels in a table:
addresses of patch, mask and resize taps, the place of the rectangle in the output, sizes and offsets.

Every operation is rounded where the reference rounds it: launches go without fused multiply-adds. `_NEAREST` is 2^23: adding it
to a value in 0..255 leaves the nearest whole number (ties to even), which is what `round` and `rint` give.

Casts: addresses in 64 bits. Masks: the tile's overhang; pixels outside the box read no face.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.nv12.blocks_triton import byte_pair, device_of, weigh
from kernels.nv12.colour import ColourMatrix
from kernels.nv12.painting import Painting, resize_taps
from kernels.nv12.splice_triton import Tiling, matrix_scalars
from kernels.triton_launch import launch

PAINT = Tiling(block_w=64, rows=4, warps=4)
COLUMNS = 13
"""Columns: patch, mask, taps across and down, place in the output, face, height, width, left, top, right, bottom, weight."""
_NEAREST = tl.constexpr(8388608.0)


@triton.jit
def _mixed(faces, upper, lower, left, right, near, far, high, low, patch, share, inside, drawn):
    """One channel of a pixel: the face's four corners in integers, then the blend in fp32."""
    a = tl.load(faces + upper + left, mask=inside, other=0).to(tl.int32)
    b = tl.load(faces + upper + right, mask=inside, other=0).to(tl.int32)
    c = tl.load(faces + lower + left, mask=inside, other=0).to(tl.int32)
    d = tl.load(faces + lower + right, mask=inside, other=0).to(tl.int32)
    above = (((a * near + b * far) >> 4) * high) >> 16
    below = (((c * near + d * far) >> 4) * low) >> 16
    face = ((above + below + 2) >> 2).to(tl.float32)
    own = tl.load(patch, mask=drawn, other=0).to(tl.float32)
    mixed = own + share * (face - own)
    return tl.where(inside, (mixed + _NEAREST) - _NEAREST, own)


@triton.jit
def _pixel(faces, patch, mask, across, down, x, y, width, left, top, right, bottom, weight, drawn, SIDE: tl.constexpr):
    """R G B at (x, y) of a patch."""
    inside = drawn & (x >= left) & (x < right) & (y >= top) & (y < bottom)
    column = across + (x - left) * 4
    line = down + (y - top) * 4
    first = tl.load(column, mask=inside, other=0) * 3
    second = tl.load(column + 1, mask=inside, other=0) * 3
    near = tl.load(column + 2, mask=inside, other=0)
    far = tl.load(column + 3, mask=inside, other=0)
    upper = tl.load(line, mask=inside, other=0) * (SIDE * 3)
    lower = tl.load(line + 1, mask=inside, other=0) * (SIDE * 3)
    high = tl.load(line + 2, mask=inside, other=0)
    low = tl.load(line + 3, mask=inside, other=0)
    place = y * width + x
    share = tl.load(mask + place, mask=inside, other=0).to(tl.float32) * weight
    own = patch + place * 3
    red = _mixed(faces, upper, lower, first, second, near, far, high, low, own, share, inside, drawn)
    green = _mixed(faces + 1, upper, lower, first, second, near, far, high, low, own + 1, share, inside, drawn)
    blue = _mixed(faces + 2, upper, lower, first, second, near, far, high, low, own + 2, share, inside, drawn)
    return red, green, blue


@triton.jit
def _paint_kernel(
    faces_ptr,
    table_ptr,
    out_ptr,
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
    HEIGHT: tl.constexpr,
    SIDE: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK_W: tl.constexpr,
    ROWS: tl.constexpr,
):
    row = table_ptr + tl.program_id(2) * COLUMNS
    height = tl.load(row + 6).to(tl.int32)
    width = tl.load(row + 7).to(tl.int32)
    first_x, first_row = tl.program_id(0) * BLOCK_W, tl.program_id(1) * ROWS
    if (first_x >= width) | (2 * first_row >= height):
        return
    patch = tl.load(row).to(tl.pointer_type(tl.uint8))
    mask = tl.load(row + 1).to(tl.pointer_type(tl.uint8))
    across = tl.load(row + 2).to(tl.pointer_type(tl.int32))
    down = tl.load(row + 3).to(tl.pointer_type(tl.int32))
    out = out_ptr + tl.load(row + 4)
    faces = faces_ptr + tl.load(row + 5) * (HEIGHT * SIDE * 3)
    left, top = tl.load(row + 8).to(tl.int32), tl.load(row + 9).to(tl.int32)
    right, bottom = tl.load(row + 10).to(tl.int32), tl.load(row + 11).to(tl.int32)
    weight = tl.load(row + 12).to(tl.int32).to(tl.float32, bitcast=True)

    x = first_x + 2 * tl.arange(0, BLOCK_W // 2)[None, :]
    block_rows = first_row + tl.arange(0, ROWS)[:, None]
    y = 2 * block_rows
    drawn = (x < width) & (y < height)
    r00, g00, b00 = _pixel(faces, patch, mask, across, down, x, y, width, left, top, right, bottom, weight, drawn, SIDE)
    r01, g01, b01 = _pixel(
        faces, patch, mask, across, down, x + 1, y, width, left, top, right, bottom, weight, drawn, SIDE
    )
    r10, g10, b10 = _pixel(
        faces, patch, mask, across, down, x, y + 1, width, left, top, right, bottom, weight, drawn, SIDE
    )
    r11, g11, b11 = _pixel(
        faces, patch, mask, across, down, x + 1, y + 1, width, left, top, right, bottom, weight, drawn, SIDE
    )
    upper = byte_pair(weigh(r00, g00, b00, yr, yg, yb) + y_offset, weigh(r01, g01, b01, yr, yg, yb) + y_offset)
    lower = byte_pair(weigh(r10, g10, b10, yr, yg, yb) + y_offset, weigh(r11, g11, b11, yr, yg, yb) + y_offset)
    # patches, and so places in the output, are even: two bytes leave as one word
    at = out + y * width + x
    tl.store(at.to(tl.pointer_type(tl.int16)), upper, mask=drawn)
    tl.store((at + width).to(tl.pointer_type(tl.int16)), lower, mask=drawn)
    r00, g00, b00 = (r00 + r01 + r10 + r11) * 0.25, (g00 + g01 + g10 + g11) * 0.25, (b00 + b01 + b10 + b11) * 0.25
    pair = byte_pair(weigh(r00, g00, b00, ur, ug, ub) + 128.0, weigh(r00, g00, b00, vr, vg, vb) + 128.0)
    tl.store((out + (height + block_rows) * width + x).to(tl.pointer_type(tl.int16)), pair, mask=drawn)


def paint(
    faces: Tensor, paintings: Sequence[Painting], matrix: ColourMatrix, *, tiling: Tiling | None = None
) -> Tensor:
    """Launch; arguments and result as validated by `kernels.nv12.painted`; `tiling` None: the default."""
    sizes = [one.size for one in paintings]
    out = torch.empty(sum(high * wide * 3 // 2 for high, wide in sizes), dtype=torch.uint8, device=faces.device)
    if paintings:
        table = paint_table(faces, paintings)
        paint_into(out, faces, table, max(high for high, _ in sizes), max(wide for _, wide in sizes), matrix, tiling)
    return out


def paint_table(faces: Tensor, paintings: Sequence[Painting]) -> Tensor:
    """The table of a launch on the faces' device, int64 (n, 13). Patches, masks and taps must outlive the launch."""
    rows, at = np.empty((len(paintings), COLUMNS), np.int64), 0
    for row, one in zip(rows, paintings, strict=True):
        high, wide = one.size
        left, top, right, bottom = one.box
        across = _taps_on(faces.shape[2], right - left, True, faces.device)
        down = _taps_on(faces.shape[1], bottom - top, False, faces.device)
        weight = int(np.float32(one.weight).view(np.int32))
        addresses = (one.patch.data_ptr(), one.mask.data_ptr(), across.data_ptr(), down.data_ptr())
        row[:] = (*addresses, at, one.face, high, wide, left, top, right, bottom, weight)
        at += high * wide * 3 // 2
    table = torch.from_numpy(rows)
    if faces.is_cuda:
        return table.pin_memory().to(faces.device, non_blocking=True)
    return table


def paint_into(
    out: Tensor,
    faces: Tensor,
    table: Tensor,
    height: int,
    width: int,
    matrix: ColourMatrix,
    tiling: Tiling | None = None,
) -> None:
    """Launch over a table that is there already; allocates nothing.

    Args:
        out: uint8 (bytes,), written.
        faces: uint8 (n, h, w, 3), contiguous.
        table: From `paint_table`.
        height: What no patch of the table passes.
        width: Likewise.
        matrix: Colour standard.
        tiling: How to cut the launch; None takes the default.
    """
    tiling = tiling or PAINT
    grid = (triton.cdiv(width, tiling.block_w), triton.cdiv(height // 2, tiling.rows), len(table))
    with device_of(faces):
        launch(
            _paint_kernel,
            grid,
            faces,
            table,
            out,
            *matrix_scalars(matrix),
            HEIGHT=faces.shape[1],
            SIDE=faces.shape[2],
            COLUMNS=COLUMNS,
            BLOCK_W=tiling.block_w,
            ROWS=tiling.rows,
            num_warps=tiling.warps,
            enable_fp_fusion=False,
        )


@functools.lru_cache(maxsize=256)
def _taps_on(before: int, after: int, across: bool, device: torch.device) -> Tensor:
    return torch.from_numpy(resize_taps(before, after, across=across).copy()).to(device)
