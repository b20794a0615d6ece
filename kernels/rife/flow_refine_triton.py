"""Triton bodies of `refine_input`, `fuse` and of packing sides: a program makes BLOCK cells, or pixels, of one batch.

Nothing of full size is written but sides and pictures: the heads of all blocks so far are upsampled again wherever a flow is
needed, out of the L1 and L2 caches (together they are smaller than one full-size flow). Casts: everything between loads and
stores is fp32. Masks: the overhang of the last program; heads and sides are clamped. Offsets fit 32 bits (checked by
`_check`).
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from kernels.errors import ShapeError
from kernels.nv12.blocks_triton import device_of, to_u8
from kernels.rife.flow_heads import INPUT_CHANNELS, MAX_HEADS, Head
from kernels.sampling.backward_warp_triton import pick, sample_side
from kernels.triton_launch import launch as run_kernel

BLOCK = 128


@triton.jit
def _grid_point(ptr, n, y, x, h, w, valid, SUB: tl.constexpr, C: tl.constexpr, FIRST: tl.constexpr):
    """Eight channels of grid points (P,): fp32 (P, 8)."""
    cell = (n * (h // SUB) + y // SUB) * (w // SUB) + x // SUB
    at = cell * (SUB * SUB * C) + ((y % SUB) * SUB + x % SUB) * C + FIRST
    return tl.load(ptr + at[:, None] + tl.arange(0, 8)[None, :], mask=valid[:, None], other=0.0).to(tl.float32)


@triton.jit
def _upsampled(
    ptr, n, y, x, height, width, valid, UP: tl.constexpr, SUB: tl.constexpr, C: tl.constexpr, FIRST: tl.constexpr
):
    """Eight channels of a head at pixels (P,): fp32 (P, 8)."""
    h = height // UP
    w = width // UP
    if UP == 1:
        return _grid_point(ptr, n, y, x, h, w, valid, SUB, C, FIRST)
    else:
        sy = tl.maximum((y.to(tl.float32) + 0.5) * (1.0 / UP) - 0.5, 0.0)
        sx = tl.maximum((x.to(tl.float32) + 0.5) * (1.0 / UP) - 0.5, 0.0)
        top = tl.floor(sy).to(tl.int32)
        left = tl.floor(sx).to(tl.int32)
        fy = (sy - top.to(tl.float32))[:, None]
        fx = (sx - left.to(tl.float32))[:, None]
        low = tl.minimum(top + 1, h - 1)
        right = tl.minimum(left + 1, w - 1)
        a = _grid_point(ptr, n, top, left, h, w, valid, SUB, C, FIRST)
        b = _grid_point(ptr, n, top, right, h, w, valid, SUB, C, FIRST)
        c = _grid_point(ptr, n, low, left, h, w, valid, SUB, C, FIRST)
        d = _grid_point(ptr, n, low, right, h, w, valid, SUB, C, FIRST)
        above = a + fx * (b - a)
        below = c + fx * (d - c)
        return above + fy * (below - above)


@triton.jit
def _totals(
    h0, h1, h2, h3, h4, n, y, x, height, width, valid,
    HEADS: tl.constexpr, SUB: tl.constexpr,
    U0: tl.constexpr, U1: tl.constexpr, U2: tl.constexpr, U3: tl.constexpr, U4: tl.constexpr,
    C0: tl.constexpr, C1: tl.constexpr, C2: tl.constexpr, C3: tl.constexpr, C4: tl.constexpr,
    LOGITS_ADD: tl.constexpr,
):  # fmt: skip
    """Total flow in channels 0..3 and logit in channel 4: fp32 (P, 8)."""
    flow = tl.arange(0, 8)[None, :] < 4  # a head's flow is in pixels of its own size, a logit has no unit
    head = _upsampled(h0, n, y, x, height, width, valid, U0, SUB, C0, 0)
    total = tl.where(flow, head * U0, head)
    if HEADS > 1:
        head = _upsampled(h1, n, y, x, height, width, valid, U1, SUB, C1, 0)
        total = tl.where(flow, total + head * U1, total + head if LOGITS_ADD else head)
    if HEADS > 2:
        head = _upsampled(h2, n, y, x, height, width, valid, U2, SUB, C2, 0)
        total = tl.where(flow, total + head * U2, total + head if LOGITS_ADD else head)
    if HEADS > 3:
        head = _upsampled(h3, n, y, x, height, width, valid, U3, SUB, C3, 0)
        total = tl.where(flow, total + head * U3, total + head if LOGITS_ADD else head)
    if HEADS > 4:
        head = _upsampled(h4, n, y, x, height, width, valid, U4, SUB, C4, 0)
        total = tl.where(flow, total + head * U4, total + head if LOGITS_ADD else head)
    return total


@triton.jit
def _add_motion(third, motion, flow_share):
    """Logit into channel 1, flow in pixels of the small picture into channels 2..5."""
    channel = tl.arange(0, 8)[None, :]
    third = tl.where(channel == 1, pick(motion, 4)[:, None], third)
    third = tl.where(channel == 2, pick(motion, 0)[:, None] * flow_share, third)
    third = tl.where(channel == 3, pick(motion, 1)[:, None] * flow_share, third)
    third = tl.where(channel == 4, pick(motion, 2)[:, None] * flow_share, third)
    return tl.where(channel == 5, pick(motion, 3)[:, None] * flow_share, third)


@triton.jit
def _refine_kernel(
    side0_ptr, side1_ptr, times_ptr, h0, h1, h2, h3, h4, last_ptr, out_ptr, cells, height, width,
    SCALE: tl.constexpr, HEADS: tl.constexpr, SUB: tl.constexpr,
    U0: tl.constexpr, U1: tl.constexpr, U2: tl.constexpr, U3: tl.constexpr, U4: tl.constexpr,
    C0: tl.constexpr, C1: tl.constexpr, C2: tl.constexpr, C3: tl.constexpr, C4: tl.constexpr,
    LAST_U: tl.constexpr, LAST_C: tl.constexpr, LOGITS_ADD: tl.constexpr,
    OUT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    cell = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = cell < cells
    columns = width // SCALE
    rows = height // SCALE
    cx = cell % columns
    cy = (cell // columns) % rows
    n = cell // (columns * rows)
    channel = tl.arange(0, 8)[None, :]
    first = tl.zeros((BLOCK, 8), dtype=tl.float32)
    second = tl.zeros((BLOCK, 8), dtype=tl.float32)
    motion = tl.zeros((BLOCK, 8), dtype=tl.float32)
    features = tl.zeros((BLOCK, 8), dtype=tl.float32)
    # shrinking bilinearly by an even factor reads the four pixels in the middle of a cell, with equal weights
    SAMPLES: tl.constexpr = 1 if SCALE == 1 else 4
    for sample in tl.static_range(SAMPLES):
        if SCALE == 1:
            y = cy
            x = cx
        else:
            y = cy * SCALE + (SCALE // 2 - 1 + sample // 2)
            x = cx * SCALE + (SCALE // 2 - 1 + sample % 2)
        if HEADS == 0:
            at = ((n * height + y) * width + x)[:, None] * 8 + channel
            first += tl.load(side0_ptr + at, mask=valid[:, None], other=0.0).to(tl.float32)
            second += tl.load(side1_ptr + at, mask=valid[:, None], other=0.0).to(tl.float32)
        else:
            total = _totals(
                h0, h1, h2, h3, h4, n, y, x, height, width, valid,
                HEADS, SUB, U0, U1, U2, U3, U4, C0, C1, C2, C3, C4, LOGITS_ADD,
            )  # fmt: skip
            xf = x.to(tl.float32)
            yf = y.to(tl.float32)
            first += sample_side(side0_ptr, n, xf + pick(total, 0), yf + pick(total, 1), height, width, valid)
            second += sample_side(side1_ptr, n, xf + pick(total, 2), yf + pick(total, 3), height, width, valid)
            motion += total
            if LAST_C == 16:
                features += _upsampled(last_ptr, n, y, x, height, width, valid, LAST_U, SUB, LAST_C, 8)
    share = 1.0 / SAMPLES
    time = tl.load(times_ptr + n, mask=valid, other=0.0)[:, None]
    third = tl.where(channel == 0, time, 0.0)
    if HEADS > 0:
        third = _add_motion(third, motion * share, 1.0 / SCALE)
    out = out_ptr + cell[:, None] * OUT + channel
    tl.store(out, (first * share).to(out_ptr.dtype.element_ty), mask=valid[:, None])
    tl.store(out + 8, (second * share).to(out_ptr.dtype.element_ty), mask=valid[:, None])
    tl.store(out + 16, third.to(out_ptr.dtype.element_ty), mask=valid[:, None])
    tl.store(out + 24, (features * share).to(out_ptr.dtype.element_ty), mask=valid[:, None])


@triton.jit
def _fuse_kernel(
    side0_ptr, side1_ptr, h0, h1, h2, h3, h4, out_ptr, pixels, height, width, out_height, out_width,
    HEADS: tl.constexpr, SUB: tl.constexpr,
    U0: tl.constexpr, U1: tl.constexpr, U2: tl.constexpr, U3: tl.constexpr, U4: tl.constexpr,
    C0: tl.constexpr, C1: tl.constexpr, C2: tl.constexpr, C3: tl.constexpr, C4: tl.constexpr,
    LOGITS_ADD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = pixel < pixels
    x = pixel % out_width
    y = (pixel // out_width) % out_height
    n = pixel // (out_width * out_height)
    total = _totals(
        h0, h1, h2, h3, h4, n, y, x, height, width, valid,
        HEADS, SUB, U0, U1, U2, U3, U4, C0, C1, C2, C3, C4, LOGITS_ADD,
    )  # fmt: skip
    xf = x.to(tl.float32)
    yf = y.to(tl.float32)
    first = sample_side(side0_ptr, n, xf + pick(total, 0), yf + pick(total, 1), height, width, valid)
    second = sample_side(side1_ptr, n, xf + pick(total, 2), yf + pick(total, 3), height, width, valid)
    share = (1.0 / (1.0 + tl.exp(-pick(total, 4))))[:, None]
    picture = second + share * (first - second)
    channel = tl.arange(0, 8)[None, :]
    tl.store(out_ptr + pixel[:, None] * 3 + channel, to_u8(picture * 255.0), mask=valid[:, None] & (channel < 3))


@triton.jit
def _pack_kernel(frames_ptr, out_ptr, pixels, height, width, in_height, in_width, BLOCK: tl.constexpr):
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = pixel % width
    y = (pixel // width) % height
    n = pixel // (width * height)
    channel = tl.arange(0, 8)[None, :]
    inside = ((pixel < pixels) & (x < in_width) & (y < in_height))[:, None] & (channel < 3)
    at = ((n * in_height + y) * in_width + x)[:, None] * 3 + channel
    level = tl.load(frames_ptr + at, mask=inside, other=0).to(tl.float32)
    tl.store(
        out_ptr + pixel[:, None] * 8 + channel,
        (level / 255.0).to(out_ptr.dtype.element_ty),
        mask=(pixel < pixels)[:, None],
    )


@triton.jit
def _place_kernel(values_ptr, side_ptr, pixels, height, width, BLOCK: tl.constexpr):
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = (pixel < pixels)[:, None]
    x = pixel % width
    y = (pixel // width) % height
    n = pixel // (width * height)
    channel = tl.arange(0, 4)[None, :]
    cell = (n * (height // 2) + y // 2) * (width // 2) + x // 2
    at = cell * 16 + ((y % 2) * 2 + x % 2) * 4
    value = tl.load(values_ptr + at[:, None] + channel, mask=valid, other=0.0)
    tl.store(side_ptr + pixel[:, None] * 8 + 3 + channel, value, mask=valid)


def launch_refine(
    side0: torch.Tensor,
    side1: torch.Tensor,
    times: torch.Tensor,
    heads: Sequence[Head],
    scale: int,
    logits_add: bool,
) -> torch.Tensor:
    """Launch; arguments as validated by `kernels.rife.flow_refine.refine_input`."""
    n, height, width, _ = side0.shape
    shape = (n, height // scale, width // scale, INPUT_CHANNELS)
    out = torch.empty(shape, dtype=side0.dtype, device=side0.device)
    _check(side0, side1, out, heads)
    cells = shape[0] * shape[1] * shape[2]
    last = heads[-1] if heads else Head(side0, 1, 4, 8)
    with device_of(side0):
        run_kernel(
            _refine_kernel,
            (triton.cdiv(cells, BLOCK),),
            side0,
            side1,
            times,
            *_pointers(heads, side0),
            last.values,
            out,
            cells,
            height,
            width,
            SCALE=scale,
            **_constants(heads),
            LAST_U=last.up,
            LAST_C=last.channels,
            LOGITS_ADD=logits_add,
            OUT=INPUT_CHANNELS,
            BLOCK=BLOCK,
        )
    return out


def launch_fuse(
    side0: torch.Tensor, side1: torch.Tensor, heads: Sequence[Head], height: int, width: int, logits_add: bool
) -> torch.Tensor:
    """Launch; arguments as validated by `kernels.rife.flow_refine.fuse`."""
    n = side0.shape[0]
    out = torch.empty((n, height, width, 3), dtype=torch.uint8, device=side0.device)
    _check(side0, side1, out, heads)
    pixels = n * height * width
    with device_of(side0):
        run_kernel(
            _fuse_kernel,
            (triton.cdiv(pixels, BLOCK),),
            side0,
            side1,
            *_pointers(heads, side0),
            out,
            pixels,
            side0.shape[1],
            side0.shape[2],
            height,
            width,
            **_constants(heads),
            LOGITS_ADD=logits_add,
            BLOCK=BLOCK,
        )
    return out


def launch_pack(frames: torch.Tensor, height: int, width: int, dtype: torch.dtype) -> torch.Tensor:
    """Frames uint8 (n, h, w, 3), contiguous, as sides (n, height, width, 8) without features, zero-padded."""
    n, in_height, in_width, _ = frames.shape
    out = torch.empty((n, height, width, 8), dtype=dtype, device=frames.device)
    _check(frames, frames, out, ())
    pixels = n * height * width
    with device_of(frames):
        run_kernel(
            _pack_kernel,
            (triton.cdiv(pixels, BLOCK),),
            frames,
            out,
            pixels,
            height,
            width,
            in_height,
            in_width,
            BLOCK=BLOCK,
        )
    return out


def launch_place(values: torch.Tensor, side: torch.Tensor) -> None:
    """Put features (n, H / 2, W / 2, 16), four channels for each of a cell's 2 x 2 pixels, into a side, in place."""
    n, height, width, _ = side.shape
    _check(values, side, side, ())
    pixels = n * height * width
    with device_of(side):
        run_kernel(_place_kernel, (triton.cdiv(pixels, BLOCK),), values, side, pixels, height, width, BLOCK=BLOCK)


def _pointers(heads: Sequence[Head], filler: torch.Tensor) -> list[torch.Tensor]:
    return [head.values for head in heads] + [filler] * (MAX_HEADS - len(heads))


def _constants(heads: Sequence[Head]) -> dict[str, int]:
    ups = [head.up for head in heads] + [1] * (MAX_HEADS - len(heads))
    channels = [head.channels for head in heads] + [8] * (MAX_HEADS - len(heads))
    named = {f"U{k}": up for k, up in enumerate(ups)} | {f"C{k}": count for k, count in enumerate(channels)}
    return {"HEADS": len(heads), "SUB": heads[0].sub if heads else 4, **named}


def _check(side0: torch.Tensor, side1: torch.Tensor, out: torch.Tensor, heads: Sequence[Head]) -> None:
    tensors = [side0, side1, out, *(head.values for head in heads)]
    if any(tensor.numel() >= 2**31 or not tensor.is_contiguous() for tensor in tensors):
        raise ShapeError("side0", str(tuple(side0.shape)), "contiguous tensors of fewer than 2**31 values")
    if len({head.sub for head in heads}) > 1:
        raise ShapeError("heads", "several cell sizes", "one")
