"""Triton bodies of `flat_convolution` and `flat_modulated_convolution`.

A program makes BM consecutive rows of one picture by BN outputs. For every tap it multiplies the BM rows that lie the tap's
distance away, fetched as one plain two-dimensional tile by the tensor copy engine, which fills what lies outside the stack with
zeros; no index arithmetic and no masks in the main loop. Rows between the lines are computed too (1 to 2 % of the work) and stored
as zeros; the program of a picture's last rows clears its zero line.

Casts: operands go to the matrix units as they are, sums are fp32, and what follows is fp32 until the store. Masks: rows past the
picture; zero rows.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels.flat_convolution import EPS, Normed, Statistics
from kernels.flat_maps import FlatShape
from kernels.nv12_triton import device_of
from kernels.triton_launch import launch


class Tile(NamedTuple):
    """How the work is cut.

    Attributes:
        rows: Rows of a program, a power of two.
        outputs: Outputs of a program, a power of two.
        depth: Channels per step, a power of two that divides the channels.
        stages: Steps in flight.
        warps: Warps per program.
    """

    rows: int
    outputs: int
    depth: int
    stages: int
    warps: int


@triton.jit
def _accumulate(
    x_desc,
    w_desc,
    first_row,
    first_out,
    pitch,
    CHANNELS: tl.constexpr,
    KERNEL: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """fp32 (BM, BN)."""
    CHUNKS: tl.constexpr = CHANNELS // BK
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(KERNEL * KERNEL * CHUNKS):
        tap = step // CHUNKS
        row = first_row + (tap // KERNEL - KERNEL // 2) * pitch + (tap % KERNEL - KERNEL // 2)
        rows = x_desc.load([row, (step % CHUNKS) * BK])
        weights = w_desc.load([first_out, step * BK])
        total = tl.dot(rows, weights.T, total)
    return total


@triton.jit(do_not_specialize=["height", "width", "plane_rows"])
def _convolution_kernel(
    x_desc,
    w_desc,
    out_ptr,
    bias_ptr,
    residual_ptr,
    scale_ptr,
    height,
    width,
    plane_rows,
    slope,
    OUTPUTS: tl.constexpr,
    PLANE: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HAS_SLOPE: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr,
    HAS_SCALE: tl.constexpr,
    CHANNELS: tl.constexpr,
    KERNEL: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    first_out = tl.program_id(0) * BN
    tile = tl.program_id(1)
    picture = tl.program_id(2)
    pitch = width + 1
    base = picture * (height + 1) * pitch
    total = _accumulate(x_desc, w_desc, base + tile * BM, first_out, pitch, CHANNELS, KERNEL, BM, BN, BK)
    place = tile * BM + tl.arange(0, BM)
    row = (base + place).to(tl.int64)
    column = first_out + tl.arange(0, BN)
    inside = (place < height * pitch) & (place % pitch < width)
    if HAS_BIAS:
        total += tl.load(bias_ptr + column)[None, :]
    if HAS_RESIDUAL:
        at = residual_ptr + row[:, None] * OUTPUTS + column[None, :]
        total += tl.load(at, mask=inside[:, None], other=0.0).to(tl.float32)
    if HAS_SLOPE:
        total = tl.where(total > 0, total, total * slope)
    if HAS_SCALE:
        total *= tl.load(scale_ptr + row, mask=inside, other=0.0)[:, None]
    total = tl.where(inside[:, None], total, 0.0)
    plane = out_ptr + (column // PLANE).to(tl.int64) * plane_rows * PLANE + column % PLANE
    target = plane[None, :] + row[:, None] * PLANE
    tl.store(target, total.to(out_ptr.dtype.element_ty), mask=(place < height * pitch)[:, None])
    if tile == tl.num_programs(1) - 1:
        for start in range(0, pitch, BM):
            line = start + tl.arange(0, BM)
            target = plane[None, :] + (base + height * pitch + line).to(tl.int64)[:, None] * PLANE
            tl.store(target, tl.zeros((BM, BN), out_ptr.dtype.element_ty), mask=(line < pitch)[:, None])


@triton.jit(do_not_specialize=["height", "width"])
def _modulation_kernel(
    x_desc,
    w_desc,
    out_ptr,
    bias_ptr,
    normed_ptr,
    mean_ptr,
    rstd_ptr,
    height,
    width,
    slope,
    OUTPUTS: tl.constexpr,
    SCALE: tl.constexpr,
    SHIFT: tl.constexpr,
    HAS_SLOPE: tl.constexpr,
    CHANNELS: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    PARTS: tl.constexpr = 2 if SHIFT else 1
    BC: tl.constexpr = BN // PARTS
    block = tl.program_id(0)
    tile = tl.program_id(1)
    picture = tl.program_id(2)
    pitch = width + 1
    base = picture * (height + 1) * pitch
    total = _accumulate(x_desc, w_desc, base + tile * BM, block * BN, pitch, CHANNELS, 3, BM, BN, BK)
    total += tl.load(bias_ptr + block * BN + tl.arange(0, BN))[None, :]
    if SHIFT:
        gamma, beta = tl.split(tl.reshape(total, (BM, BC, 2)))
    else:
        gamma = total
    place = tile * BM + tl.arange(0, BM)
    line, across = place // pitch, place % pitch
    inside = (line < height) & (across < width)
    channel = block * BC + tl.arange(0, BC)
    small_pitch = width // SCALE + 1
    source = picture * (height // SCALE + 1) * small_pitch + (line // SCALE) * small_pitch + across // SCALE
    z = tl.load(normed_ptr + source.to(tl.int64)[:, None] * OUTPUTS + channel[None, :], mask=inside[:, None], other=0.0)
    mean = tl.load(mean_ptr + picture * OUTPUTS + channel)
    rstd = tl.load(rstd_ptr + picture * OUTPUTS + channel)
    y = (z.to(tl.float32) - mean[None, :]) * rstd[None, :] * (1.0 + gamma)
    if SHIFT:
        y += beta
    if HAS_SLOPE:
        y = tl.where(y > 0, y, y * slope)
    y = tl.where(inside[:, None], y, 0.0).to(out_ptr.dtype.element_ty)
    row = (base + place).to(tl.int64)
    tl.store(out_ptr + row[:, None] * OUTPUTS + channel[None, :], y, mask=(line < height)[:, None])
    if tile == tl.num_programs(1) - 1:
        for start in range(0, pitch, BM):
            last = start + tl.arange(0, BM)
            target = out_ptr + (base + height * pitch + last).to(tl.int64)[:, None] * OUTPUTS + channel[None, :]
            tl.store(target, tl.zeros((BM, BC), out_ptr.dtype.element_ty), mask=(last < pitch)[:, None])


@triton.jit(do_not_specialize=["height", "width"])
def _statistics_kernel(
    flat_ptr,
    mean_ptr,
    spread_ptr,
    height,
    width,
    CHANNELS: tl.constexpr,
    ROWS: tl.constexpr,
    BM: tl.constexpr,
    BC: tl.constexpr,
):
    """Mean and summed squares around it of ROWS rows, fp32, sums taken around the block's first row."""
    channel = tl.program_id(0) * BC + tl.arange(0, BC)
    block = tl.program_id(1)
    picture = tl.program_id(2)
    there = channel < CHANNELS
    pitch = width + 1
    base = flat_ptr + (picture * (height + 1) * pitch).to(tl.int64) * CHANNELS + channel
    pivot = tl.load(base + block * ROWS * CHANNELS, mask=there, other=0.0).to(tl.float32)
    total = tl.zeros((BM, BC), tl.float32)
    squares = tl.zeros((BM, BC), tl.float32)
    for start in tl.static_range(0, ROWS, BM):
        place = block * ROWS + start + tl.arange(0, BM)
        mask = ((place < height * pitch) & (place % pitch < width))[:, None] & there[None, :]
        value = tl.load(base[None, :] + place[:, None] * CHANNELS, mask=mask, other=0.0).to(tl.float32)
        away = tl.where(mask, value - pivot[None, :], 0.0)
        total += away
        squares += away * away
    last = tl.minimum((block + 1) * ROWS, height * pitch)
    first = block * ROWS
    count = (last - last // pitch - (first - first // pitch)).to(tl.float32)
    shift = tl.sum(total, axis=0) / tl.maximum(count, 1.0)
    spread = tl.maximum(tl.sum(squares, axis=0) - count * shift * shift, 0.0)
    slot = (picture * tl.num_programs(1) + block) * CHANNELS + channel
    tl.store(mean_ptr + slot, pivot + shift, mask=there)
    tl.store(spread_ptr + slot, spread, mask=there)


@triton.jit(do_not_specialize=["height", "width", "tiles", "CHANNELS"])
def _merge_kernel(
    mean_ptr,
    spread_ptr,
    out_mean_ptr,
    out_rstd_ptr,
    height,
    width,
    tiles,
    eps,
    CHANNELS,
    BM: tl.constexpr,
    BC: tl.constexpr,
    TILES: tl.constexpr,
):
    """Means and summed squares of tiles -> mean and 1 / deviation of pictures, around the first tile's mean, in fp32."""
    picture = tl.program_id(1)
    channel = tl.program_id(0) * BC + tl.arange(0, BC)
    there = channel < CHANNELS
    pitch = width + 1
    at = picture * tiles * CHANNELS + channel
    pivot = tl.load(mean_ptr + at, mask=there, other=0.0)
    total = tl.zeros((BC,), tl.float32)
    squares = tl.zeros((BC,), tl.float32)
    for start in range(0, tiles, TILES):
        tile = start + tl.arange(0, TILES)
        first = tile * BM
        last = tl.minimum(first + BM, height * pitch)
        # places of full lines, less the zero row of each line that lies in the tile
        count = (last - last // pitch - (first - first // pitch)).to(tl.float32)[:, None]
        mask = (tile < tiles)[:, None] & there[None, :]
        slot = at[None, :] + tile[:, None] * CHANNELS
        away = tl.load(mean_ptr + slot, mask=mask, other=0.0) - pivot[None, :]
        spread = tl.load(spread_ptr + slot, mask=mask, other=0.0)
        total += tl.sum(tl.where(mask, count * away, 0.0), axis=0)
        squares += tl.sum(tl.where(mask, spread + count * away * away, 0.0), axis=0)
    places = (height * width).to(tl.float32)
    shift = total / places
    variance = tl.maximum(squares / places - shift * shift, 0.0)
    tl.store(out_mean_ptr + picture * CHANNELS + channel, pivot + shift, mask=there)
    tl.store(out_rstd_ptr + picture * CHANNELS + channel, 1.0 / tl.sqrt(variance + eps), mask=there)


ROWS = 256
"""Rows whose statistics one program takes."""
MERGED = 16
"""Channels of a program that merges statistics."""
_MULTIPROCESSORS = 132
_WIDE_TILE_BYTES = 200 * 1024
"""What the largest tiles in use take."""


def tile_for(
    shape: FlatShape,
    channels: int,
    outputs: int,
    kernel: int = 3,
    *,
    modulation: bool = False,
    shared_bytes: int = 232448,
) -> Tile:
    """A measured choice (`python -m benchmarks.flat_convolution_tiles`, one H200): wide tiles while they fill the GPU.

    Args:
        shape: Extent of the pictures.
        channels: In.
        outputs: Out.
        kernel: 1 or 3.
        modulation: Whether the outputs modulate.
        shared_bytes: Shared memory a program may have; small tiles where it is less than Hopper's (chosen by size, not measured).
    """
    lines = shape.batch * -(-shape.height * shape.pitch // 128)
    wide = next(size for size in (256, 128, 64, 32, 16) if outputs % size == 0)
    depth = min(64, channels)
    if shared_bytes < _WIDE_TILE_BYTES:
        return Tile(128, min(wide, 128), min(depth, 32), 3, 8 if wide >= 128 else 4)
    if wide >= 128 and lines * (outputs // wide) < _MULTIPROCESSORS:
        return Tile(128, 128 if lines * (outputs // 128) >= _MULTIPROCESSORS // 2 else 64, depth, 4, 4)
    if kernel == 1 or wide == 128:
        return Tile(128, min(wide, 128), depth, 3, 4)
    if wide == 256:
        return Tile(256, 128, depth, 4, 8) if outputs == 256 and not modulation else Tile(128, 256, depth, 3, 8)
    return Tile(128, wide, depth, 3 if wide == 64 else 2, 4)


def _shared_bytes(x: Tensor) -> int:
    """Of the tensor's GPU, for one program."""
    if not x.is_cuda:
        return _WIDE_TILE_BYTES  # the interpreter's tests name their tiles
    return int(triton.runtime.driver.active.utils.get_device_properties(x.device.index)["max_shared_mem"])


def convolve(
    x: Tensor,
    weight: Tensor,
    shape: FlatShape,
    kernel: int,
    bias: Tensor | None,
    slope: float,
    residual: Tensor | None,
    row_scale: Tensor | None,
    planes: int,
    dtype: torch.dtype,
    *,
    tile: Tile | None = None,
) -> Tensor:
    """Launch; arguments as validated by `kernels.flat_convolution`."""
    outputs, channels = weight.shape[0], x.shape[1]
    cut = tile or tile_for(shape, channels, outputs, kernel, shared_bytes=_shared_bytes(x))
    tiles = triton.cdiv(shape.height * shape.pitch, cut.rows)
    size = (shape.rows, outputs) if planes == 1 else (planes, shape.rows, outputs // planes)
    out = torch.empty(size, dtype=dtype, device=x.device)
    with device_of(x):
        launch(
            _convolution_kernel,
            (outputs // cut.outputs, tiles, shape.batch),
            TensorDescriptor.from_tensor(x, [cut.rows, cut.depth]),
            TensorDescriptor.from_tensor(weight, [cut.outputs, cut.depth]),
            out,
            out if bias is None else bias,
            out if residual is None else residual,
            out if row_scale is None else row_scale,
            shape.height,
            shape.width,
            shape.rows,
            slope,
            OUTPUTS=outputs,
            PLANE=outputs // planes,
            HAS_BIAS=bias is not None,
            HAS_SLOPE=slope != 1.0,
            HAS_RESIDUAL=residual is not None,
            HAS_SCALE=row_scale is not None,
            CHANNELS=channels,
            KERNEL=kernel,
            BM=cut.rows,
            BN=cut.outputs,
            BK=cut.depth,
            num_warps=cut.warps,
            num_stages=cut.stages,
        )
    return out


def statistics(flat: Tensor, shape: FlatShape) -> Statistics:
    """Launch: what instance norm needs of a flat stack, whose zero rows are zero. The same for a picture whatever the batch."""
    channels = flat.shape[1]
    blocks = triton.cdiv(shape.height * shape.pitch, ROWS)
    means, spreads = (
        torch.empty((shape.batch, blocks, channels), dtype=torch.float32, device=flat.device) for _ in range(2)
    )
    mean, rstd = (torch.empty((shape.batch, channels), dtype=torch.float32, device=flat.device) for _ in range(2))
    with device_of(flat):
        launch(
            _statistics_kernel,
            (triton.cdiv(channels, 64), blocks, shape.batch),
            flat,
            means,
            spreads,
            shape.height,
            shape.width,
            CHANNELS=channels,
            ROWS=ROWS,
            BM=32,
            BC=64,
            num_warps=4,
        )
        launch(
            _merge_kernel,
            (triton.cdiv(channels, MERGED), shape.batch),
            means,
            spreads,
            mean,
            rstd,
            shape.height,
            shape.width,
            blocks,
            EPS,
            channels,
            BM=ROWS,
            BC=MERGED,
            TILES=64,
            num_warps=4,
        )
    return Statistics(mean, rstd)


def modulate(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    shape: FlatShape,
    normed: Normed,
    slope: float,
    shift: bool,
    *,
    tile: Tile | None = None,
) -> Tensor:
    """Launch; arguments as validated by `kernels.flat_convolution`."""
    columns, channels = weight.shape[0], x.shape[1]
    cut = tile or tile_for(shape, channels, columns, modulation=True, shared_bytes=_shared_bytes(x))
    outputs = normed.flat.shape[1]
    out = torch.empty((shape.rows, outputs), dtype=x.dtype, device=x.device)
    with device_of(x):
        launch(
            _modulation_kernel,
            (columns // cut.outputs, triton.cdiv(shape.height * shape.pitch, cut.rows), shape.batch),
            TensorDescriptor.from_tensor(x, [cut.rows, cut.depth]),
            TensorDescriptor.from_tensor(weight, [cut.outputs, cut.depth]),
            out,
            bias,
            normed.flat,
            normed.statistics.mean,
            normed.statistics.rstd,
            shape.height,
            shape.width,
            slope,
            OUTPUTS=outputs,
            SCALE=normed.scale,
            SHIFT=shift,
            HAS_SLOPE=slope != 1.0,
            CHANNELS=channels,
            BM=cut.rows,
            BN=cut.outputs,
            BK=cut.depth,
            num_warps=cut.warps,
            num_stages=cut.stages,
        )
    return out
