"""Triton body of `group_norm`: a program norms one group of one item.

A group of 32 has 10 to 80 channels, whose values lie together at every place; neighbouring groups run at the same time, so cache
lines that they share are read from memory once. Where a group's values fit the registers (all of a 32 x 32 latent's do) they are
read once, and the variance is taken around the mean. Larger maps are read three times, out of the L2 cache but for the first.

Casts: offsets of items in 64 bits. Masks: channels and places beyond a group's own.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.nv12.blocks_triton import device_of
from kernels.triton_launch import launch

HELD = 32_768
"""Values that a program keeps in registers: 64 of each of 512 threads."""
CHUNK = 8_192
"""Values of one step where they do not fit."""


@triton.jit
def _group_values(
    x_ptr, skip_ptr, offset_ptr, place, channel, there, X: tl.constexpr, SKIP: tl.constexpr, OFFSET: tl.constexpr
):
    """Values of places x channels in fp32, zero where `there` is not."""
    if SKIP > 0:
        # groups seldom lie on the border between the two, so one of the loads has no lane that is on
        own, other = there & (channel < X)[None, :], there & (channel >= X)[None, :]
        value = tl.load(x_ptr + place[:, None] * X + channel[None, :], mask=own, other=0.0).to(tl.float32)
        value += tl.load(skip_ptr + place[:, None] * SKIP + (channel - X)[None, :], mask=other, other=0.0).to(
            tl.float32
        )
    else:
        value = tl.load(x_ptr + place[:, None] * X + channel[None, :], mask=there, other=0.0).to(tl.float32)
    if OFFSET:
        added = tl.load(offset_ptr + channel, mask=channel < X + SKIP, other=0.0)
        value = tl.where(there, value + added[None, :], 0.0)
    return value


@triton.jit
def _group_norm_kernel(
    x_ptr,
    skip_ptr,
    weight_ptr,
    bias_ptr,
    offset_ptr,
    out_ptr,
    eps,
    PLACES: tl.constexpr,
    X: tl.constexpr,
    SKIP: tl.constexpr,
    OWN: tl.constexpr,
    SILU: tl.constexpr,
    OFFSET: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    group = tl.program_id(0)
    item = tl.program_id(1).to(tl.int64)
    lane = tl.arange(0, BLOCK_C)
    channel = group * OWN + lane
    own = lane < OWN
    x = x_ptr + item * PLACES * X
    skip = skip_ptr + item * PLACES * SKIP
    out = out_ptr + item * PLACES * (X + SKIP)
    place = tl.arange(0, BLOCK_P)
    weight = tl.load(weight_ptr + channel, mask=own, other=0.0)[None, :]
    bias = tl.load(bias_ptr + channel, mask=own, other=0.0)[None, :]
    if BLOCK_P >= PLACES:
        there = (place < PLACES)[:, None] & own[None, :]
        value = _group_values(x, skip, offset_ptr, place, channel, there, X, SKIP, OFFSET)
        mean = tl.sum(value) / (PLACES * OWN)
        away = tl.where(there, value - mean, 0.0)
        scale = 1.0 / tl.sqrt(tl.sum(away * away) / (PLACES * OWN) + eps)
        made = away * scale * weight + bias
        if SILU:
            made = made / (1.0 + tl.exp(-made))
        tl.store(out + place[:, None] * (X + SKIP) + channel[None, :], made.to(out_ptr.dtype.element_ty), mask=there)
    else:
        total = tl.zeros((BLOCK_P, BLOCK_C), tl.float32)
        for start in range(0, PLACES, BLOCK_P):
            there = (start + place < PLACES)[:, None] & own[None, :]
            total += _group_values(x, skip, offset_ptr, start + place, channel, there, X, SKIP, OFFSET)
        mean = tl.sum(total) / (PLACES * OWN)
        squares = tl.zeros((BLOCK_P, BLOCK_C), tl.float32)
        for start in range(0, PLACES, BLOCK_P):
            there = (start + place < PLACES)[:, None] & own[None, :]
            value = _group_values(x, skip, offset_ptr, start + place, channel, there, X, SKIP, OFFSET)
            away = tl.where(there, value - mean, 0.0)
            squares += away * away
        scale = 1.0 / tl.sqrt(tl.sum(squares) / (PLACES * OWN) + eps)
        for start in range(0, PLACES, BLOCK_P):
            at = start + place
            there = (at < PLACES)[:, None] & own[None, :]
            value = _group_values(x, skip, offset_ptr, at, channel, there, X, SKIP, OFFSET)
            made = (value - mean) * scale * weight + bias
            if SILU:
                made = made / (1.0 + tl.exp(-made))
            tl.store(out + at[:, None] * (X + SKIP) + channel[None, :], made.to(out_ptr.dtype.element_ty), mask=there)


def norm(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    groups: int,
    eps: float,
    *,
    silu: bool,
    skip: Tensor | None,
    offset: Tensor | None,
    held: int = HELD,
) -> Tensor:
    """Launch; arguments as validated by `kernels.unet.group_norm`.

    Args:
        x: See there, and the others.
        weight: See there.
        bias: See there.
        groups: See there.
        eps: See there.
        silu: See there.
        skip: See there.
        offset: See there.
        held: Largest number of values that are read once.
    """
    items, height, width, channels = x.shape
    places, more = height * width, 0 if skip is None else skip.shape[3]
    own = (channels + more) // groups
    block_c = triton.next_power_of_2(own)
    block_p = triton.next_power_of_2(places)
    if block_p * block_c > held:
        block_p = max(1, min(CHUNK, held) // block_c)
    out = torch.empty((items, height, width, channels + more), dtype=x.dtype, device=x.device)
    if not items:
        return out
    with device_of(x):
        launch(
            _group_norm_kernel,
            (groups, items),
            x,
            x if skip is None else skip,
            weight,
            bias,
            weight if offset is None else offset,
            out,
            eps,
            PLACES=places,
            X=channels,
            SKIP=more,
            OWN=own,
            SILU=silu,
            OFFSET=offset is not None,
            BLOCK_P=block_p,
            BLOCK_C=block_c,
            num_warps=_warps(block_p * block_c),
        )
    return out


def _warps(values: int) -> int:
    return min(16, max(1, values // 2048))
