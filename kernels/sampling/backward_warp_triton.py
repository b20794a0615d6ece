"""The sampler of the backward warp for Triton bodies that read both sides of a pair with their features.

A side is channels last, eight channels, so that a tap is one 16-byte load in half precision. Casts: positions and weights in
fp32, taps to fp32. Masks: taps are clamped to the picture, so only the tile's overhang is masked. Offsets fit 32 bits
(checked by the launchers).
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def sample_side(side_ptr, n, x, y, height, width, valid):
    """Eight channels at fractional positions, clamped at the border: fp32 (P, 8) from positions (P,)."""
    x = tl.minimum(tl.maximum(x, 0.0), width - 1.0)
    y = tl.minimum(tl.maximum(y, 0.0), height - 1.0)
    left = tl.floor(x)
    top = tl.floor(y)
    fx = (x - left)[:, None]
    fy = (y - top)[:, None]
    left = left.to(tl.int32)
    top = top.to(tl.int32)
    # on the last column and line the share is 0: the clamped neighbour need only be there to be read
    right = tl.minimum(left + 1, width - 1)
    low = tl.minimum(top + 1, height - 1)
    channel = tl.arange(0, 8)[None, :]
    upper_row = (n * height + top) * width
    lower_row = (n * height + low) * width
    inside = valid[:, None]
    a = tl.load(side_ptr + (upper_row + left)[:, None] * 8 + channel, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(side_ptr + (upper_row + right)[:, None] * 8 + channel, mask=inside, other=0.0).to(tl.float32)
    c = tl.load(side_ptr + (lower_row + left)[:, None] * 8 + channel, mask=inside, other=0.0).to(tl.float32)
    d = tl.load(side_ptr + (lower_row + right)[:, None] * 8 + channel, mask=inside, other=0.0).to(tl.float32)
    above = a + fx * (b - a)
    below = c + fx * (d - c)
    return above + fy * (below - above)


@triton.jit
def pick(values, channel: tl.constexpr):
    """Take one channel (P,) out of (P, 8)."""
    return tl.sum(tl.where(tl.arange(0, 8)[None, :] == channel, values, 0.0), axis=1)
