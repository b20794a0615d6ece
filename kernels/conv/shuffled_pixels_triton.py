"""Triton body of `shuffled_pixels`: a program takes BP places of one line; the six bytes of each half block lie together."""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.conv.flat_maps import FlatShape
from kernels.nv12.blocks_triton import device_of, to_u8
from kernels.triton_launch import launch

BLOCK = 64


@triton.jit
def _shuffle_kernel(logits_ptr, out_ptr, height, width, COLUMNS: tl.constexpr, BP: tl.constexpr):
    across = tl.program_id(0) * BP + tl.arange(0, BP)
    line = tl.program_id(1)
    picture = tl.program_id(2)
    row = (picture * (height + 1) + line) * (width + 1) + across
    index = tl.arange(0, 16)  # 12 bytes of a place; a range must be a power of two long
    block_line, block_column, colour = index // 6, (index % 6) // 3, index % 3
    logit = colour * 4 + block_line * 2 + block_column
    there = (across < width)[:, None] & (index < 12)[None, :]
    value = tl.load(logits_ptr + row.to(tl.int64)[:, None] * COLUMNS + logit[None, :], mask=there, other=0.0).to(
        tl.float32
    )
    byte = to_u8(255.0 / (1.0 + tl.exp(-value)))
    y = (picture * height + line) * 2 + block_line
    target = (y.to(tl.int64)[None, :] * (2 * width) + 2 * across[:, None] + block_column[None, :]) * 3 + colour[None, :]
    tl.store(out_ptr + target, byte, mask=there)


def shuffle(logits: Tensor, shape: FlatShape) -> Tensor:
    """Launch; arguments as validated by `kernels.conv.shuffled_pixels`."""
    out = torch.empty((shape.batch, 2 * shape.height, 2 * shape.width, 3), dtype=torch.uint8, device=logits.device)
    with device_of(logits):
        launch(
            _shuffle_kernel,
            (triton.cdiv(shape.width, BLOCK), shape.height, shape.batch),
            logits,
            out,
            shape.height,
            shape.width,
            COLUMNS=logits.shape[1],
            BP=BLOCK,
            num_warps=4,
        )
    return out
