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

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels.conv.flat_maps import FlatShape
from kernels.conv.flat_tiles import WIDE_TILE_BYTES, Tile, tile_for
from kernels.conv.instance_norm import Normed
from kernels.nv12.blocks_triton import device_of
from kernels.triton_launch import launch


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


# not specialised: Triton would compile again whenever a size becomes, or ceases to be, 1 or a multiple of 16
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


def _shared_bytes(x: Tensor) -> int:
    """Shared memory of the tensor's GPU for one program, in bytes."""
    if not x.is_cuda:
        return WIDE_TILE_BYTES  # the interpreter's tests name their tiles
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
    """Launch; arguments as validated by `kernels.conv.flat_convolution`."""
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
    """Launch; arguments as validated by `kernels.conv.flat_convolution`."""
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
