"""Triton body of `composite_nv12`: affine sample, mask, blend and NV12 in one launch; no RGB picture ever exists.

A thread owns whole 2x2 blocks: a program takes ROWS chroma rows of BLOCK_W columns of one picture's rectangle as four (ROWS,
BLOCK_W / 2) tiles, one per place in the block. So chroma needs no exchange between threads, and two Y, or one U and one V,
leave as one 16-bit word (rectangles and canvases are even; `make_target` checks the addresses).

A crop pixel is three bytes, so a pixel and its right neighbour are six bytes at an arbitrary byte offset. They are fetched as
two aligned 32-bit words and funnel-shifted into place; only an offset of 3 (a quarter of the pixels) needs a third word for the
last blue byte. That is four or six loads per pixel instead of twelve.

Crop reads stay inside the crop: the top-left neighbour is at most (510, 510), and its lower right pixel is the last one. No
clamps: blends of values in 0..255 stay there, and limited-range Y, U, V lie in 16..240; truncation is floor, for they are
positive. Addresses come from a table (`kernels.nv12.composite_device`), so that one launch, and one captured graph, serves several
avatars.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.nv12.blocks_triton import byte_pair, device_of, weigh
from kernels.nv12.colour import ColourMatrix
from kernels.nv12.composite_device import ROW, CompositeTarget, DevicePlan
from kernels.nv12.composite_plan import CROP_SIZE
from kernels.nv12.splice_triton import Tiling, matrix_scalars

TAIL = Tiling(block_w=32, rows=2, warps=1)
CROP_BYTES = CROP_SIZE * CROP_SIZE * 3


@triton.jit
def _funnel(low, high, shift):
    """The 32 bits that start `shift` (0..31) bits up in high:low; in this form the compiler finds its one instruction for it."""
    return (low >> shift) | ((high << 1) << (shift ^ 31))


@triton.jit
def _two_pixels(words, first, shift, inside):
    """R G B of a pixel and of its right neighbour, fp32, from aligned words."""
    low = tl.load(words + first, mask=inside, other=0).to(tl.uint32, bitcast=True)
    high = tl.load(words + first + 1, mask=inside, other=0).to(tl.uint32, bitcast=True)
    last = tl.load(words + first + 2, mask=inside & (shift == 24), other=0).to(tl.uint32, bitcast=True)
    near = _funnel(low, high, shift)
    far = _funnel(high, last, shift)
    return (
        (near & 255).to(tl.float32),
        ((near >> 8) & 255).to(tl.float32),
        ((near >> 16) & 255).to(tl.float32),
        (near >> 24).to(tl.float32),
        (far & 255).to(tl.float32),
        ((far >> 8) & 255).to(tl.float32),
    )


@triton.jit
def _blend(upper_left, upper_right, lower_left, lower_right, fx, fy, mask, back):
    upper = upper_left + fx * (upper_right - upper_left)
    lower = lower_left + fx * (lower_right - lower_left)
    front = upper + fy * (lower - upper)
    # rounded here as in the reference: where the mask is 0 the result is the converted background, byte for byte
    return tl.floor(back + mask * (front - back) + 0.5)


@triton.jit
def _pixel(words, backs, masks, affine, x, y, width, inside, SIZE: tl.constexpr):
    """The blended R G B at (x, y) of the rectangle."""
    fx, fy = x.to(tl.float32), y.to(tl.float32)
    u = tl.load(affine) * fx + tl.load(affine + 1) * fy + tl.load(affine + 2)
    v = tl.load(affine + 3) * fx + tl.load(affine + 4) * fy + tl.load(affine + 5)
    u = tl.minimum(tl.maximum(u, 0.0), SIZE - 1.0)
    v = tl.minimum(tl.maximum(v, 0.0), SIZE - 1.0)
    left = tl.minimum(u.to(tl.int32), SIZE - 2)
    top = tl.minimum(v.to(tl.int32), SIZE - 2)
    byte = (top * SIZE + left) * 3
    first, shift = byte >> 2, ((byte & 3) << 3).to(tl.uint32)
    r00, g00, b00, r01, g01, b01 = _two_pixels(words, first, shift, inside)
    r10, g10, b10, r11, g11, b11 = _two_pixels(words, first + SIZE * 3 // 4, shift, inside)
    u, v = u - left.to(tl.float32), v - top.to(tl.float32)
    place = y * width + x
    back = tl.load(backs + place, mask=inside, other=0)
    mask = tl.load(masks + place, mask=inside, other=0.0)
    red = _blend(r00, r01, r10, r11, u, v, mask, (back & 255).to(tl.float32))
    green = _blend(g00, g01, g10, g11, u, v, mask, ((back >> 8) & 255).to(tl.float32))
    blue = _blend(b00, b01, b10, b11, u, v, mask, ((back >> 16) & 255).to(tl.float32))
    return red, green, blue


@triton.jit
def _composite_kernel(
    crops_ptr,
    addresses_ptr,
    affine_ptr,
    row_step,
    luma_ptr,
    luma_n,
    luma_h,
    chroma_ptr,
    chroma_n,
    chroma_h,
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
    OUTPUT_IN_TABLE: tl.constexpr,
    TOP_LEFT: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK_W: tl.constexpr,
    ROWS: tl.constexpr,
):
    item = tl.program_id(2).to(tl.int64)
    row = addresses_ptr + item * row_step
    width = tl.load(row + 6).to(tl.int32)
    height = tl.load(row + 7).to(tl.int32)
    first_x, first_row = tl.program_id(0) * BLOCK_W, tl.program_id(1) * ROWS
    if (first_x >= width) | (2 * first_row >= height):
        return
    backs = tl.load(row).to(tl.pointer_type(tl.int32))
    masks = tl.load(row + 1).to(tl.pointer_type(tl.float32))
    if OUTPUT_IN_TABLE:
        luma = tl.load(row + 2).to(tl.pointer_type(tl.uint8))
        chroma = tl.load(row + 3).to(tl.pointer_type(tl.uint8))
        luma_step = tl.load(row + 4).to(tl.int32)
        chroma_step = tl.load(row + 5).to(tl.int32)
    else:
        luma = luma_ptr + item * luma_n
        chroma = chroma_ptr + item * chroma_n
        luma_step = luma_h
        chroma_step = chroma_h

    x = first_x + 2 * tl.arange(0, BLOCK_W // 2)[None, :]
    block_rows = first_row + tl.arange(0, ROWS)[:, None]
    y = 2 * block_rows
    inside = (x < width) & (y < height)
    words = crops_ptr + item * (SIZE * SIZE * 3 // 4)
    affine = affine_ptr + item * row_step
    r00, g00, b00 = _pixel(words, backs, masks, affine, x, y, width, inside, SIZE)
    r01, g01, b01 = _pixel(words, backs, masks, affine, x + 1, y, width, inside, SIZE)
    r10, g10, b10 = _pixel(words, backs, masks, affine, x, y + 1, width, inside, SIZE)
    r11, g11, b11 = _pixel(words, backs, masks, affine, x + 1, y + 1, width, inside, SIZE)

    upper = byte_pair(weigh(r00, g00, b00, yr, yg, yb) + y_offset, weigh(r01, g01, b01, yr, yg, yb) + y_offset)
    lower = byte_pair(weigh(r10, g10, b10, yr, yg, yb) + y_offset, weigh(r11, g11, b11, yr, yg, yb) + y_offset)
    at = luma + y * luma_step + x
    tl.store(at.to(tl.pointer_type(tl.int16)), upper, mask=inside)
    tl.store((at + luma_step).to(tl.pointer_type(tl.int16)), lower, mask=inside)
    if not TOP_LEFT:
        r00, g00, b00 = (r00 + r01 + r10 + r11) * 0.25, (g00 + g01 + g10 + g11) * 0.25, (b00 + b01 + b10 + b11) * 0.25
    pair = byte_pair(weigh(r00, g00, b00, ur, ug, ub) + 128.0, weigh(r00, g00, b00, vr, vg, vb) + 128.0)
    tl.store((chroma + block_rows * chroma_step + x).to(tl.pointer_type(tl.int16)), pair, mask=inside)


def composite(
    crops: torch.Tensor, plan: DevicePlan, *, tiling: Tiling | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Crops of one avatar to fresh rectangles; arguments as validated by `kernels.nv12.composite`.

    Args:
        crops: uint8 (n, 512, 512, 3), RGB.
        plan: The avatar on the crops' device.
        tiling: How to cut the launch; None takes the measured default.

    Returns:
        Luma uint8 (n, h, w) and interleaved U V uint8 (n, h / 2, w).
    """
    tiling = tiling or TAIL
    n, h, w = len(crops), plan.plan.height, plan.plan.width
    luma = torch.empty((n, h, w), dtype=torch.uint8, device=crops.device)
    chroma = torch.empty((n, h // 2, w), dtype=torch.uint8, device=crops.device)
    if n:
        grid = (triton.cdiv(w, tiling.block_w), triton.cdiv(h // 2, tiling.rows), n)
        _launch(crops, plan.addresses, plan.affine, 0, luma, chroma, grid, plan.plan.colour, plan.plan.chroma, tiling)
    return luma, chroma


def composite_into(
    crops: torch.Tensor,
    addresses: torch.Tensor,
    affine: torch.Tensor,
    largest: tuple[int, int],
    matrix: ColourMatrix,
    chroma: str,
    *,
    tiling: Tiling | None = None,
) -> None:
    """Crops of any avatars straight into the canvases that their table rows name. Allocates nothing: may be captured.

    Args:
        crops: uint8 (n, 512, 512, 3), RGB, contiguous, 4-byte aligned.
        addresses: int64 (n, 8), rows of `CompositeTarget`s or zeros.
        affine: float32 (n, 8), likewise.
        largest: Width and height that no rectangle of the table passes.
        matrix: Colour standard of every canvas.
        chroma: `mean` or `top_left`.
        tiling: How to cut the launch; None takes the measured default.
    """
    tiling = tiling or TAIL
    width, height = largest
    grid = (triton.cdiv(width, tiling.block_w), triton.cdiv(height // 2, tiling.rows), len(crops))
    _launch(crops, addresses, affine, ROW, None, None, grid, matrix, chroma, tiling)


def composite_targets(crops: torch.Tensor, targets: list[CompositeTarget], *, tiling: Tiling | None = None) -> None:
    """Compose one picture per target, uncaptured: builds the tables and launches. All targets share one colour standard.

    Args:
        crops: uint8 (n, 512, 512, 3), RGB.
        targets: n of them.
        tiling: How to cut the launch; None takes the measured default.
    """
    addresses = torch.stack([target.addresses for target in targets])
    affine = torch.stack([target.plan.affine for target in targets])
    plans = [target.plan.plan for target in targets]
    largest = (max(plan.width for plan in plans), max(plan.height for plan in plans))
    composite_into(crops, addresses, affine, largest, plans[0].colour, plans[0].chroma, tiling=tiling)


def _launch(
    crops: torch.Tensor,
    addresses: torch.Tensor,
    affine: torch.Tensor,
    row_step: int,
    luma: torch.Tensor | None,
    chroma: torch.Tensor | None,
    grid: tuple[int, int, int],
    matrix: ColourMatrix,
    rule: str,
    tiling: Tiling,
) -> None:
    if not crops.is_contiguous() or crops.data_ptr() % 4:
        crops = crops.clone(memory_format=torch.contiguous_format)
    words = crops.view(len(crops), CROP_BYTES).view(torch.int32)
    strides = [(out.stride(0), out.stride(1)) if out is not None else (0, 0) for out in (luma, chroma)]
    with device_of(crops):
        _composite_kernel[grid](
            words,
            addresses,
            affine,
            row_step,
            luma if luma is not None else words,
            *strides[0],
            chroma if chroma is not None else words,
            *strides[1],
            *matrix_scalars(matrix),
            OUTPUT_IN_TABLE=luma is None,
            TOP_LEFT=rule == "top_left",
            SIZE=CROP_SIZE,
            BLOCK_W=tiling.block_w,
            ROWS=tiling.rows,
            num_warps=tiling.warps,
        )
