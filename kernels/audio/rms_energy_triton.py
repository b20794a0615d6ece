"""Triton body of `rms_energy`: one program per frame and row, two passes over its window (mean, then squared distances).

The one-pass form E[s^2] - E[s]^2 would lose a faint signal on a large DC offset in fp32; the window stays in cache, so the
second pass is cheap. Masks: the window is cut at the ends of the signal, and the last chunk of BLOCK samples overhangs.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.nv12.blocks_triton import device_of

BLOCK = 1024


@triton.jit
def _energy_kernel(pcm_ptr, out_ptr, stride, step, total, frames, frame, window, before, BLOCK: tl.constexpr):
    index = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    first = tl.maximum(index * frame - before, 0)
    last = tl.minimum(index * frame - before + window, total)
    count = (last - first).to(tl.float32)
    samples = pcm_ptr + row * stride
    lanes = tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(first, last, BLOCK):
        at = start + lanes
        sums += tl.load(samples + at * step, mask=at < last, other=0.0)
    mean = tl.sum(sums, axis=0) / count
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(first, last, BLOCK):
        at = start + lanes
        # chosen after the load: a lane past the window reads 0 and would count as the square of the mean
        distance = tl.where(at < last, tl.load(samples + at * step, mask=at < last, other=0.0) - mean, 0.0)
        squares += distance * distance
    tl.store(out_ptr + row * frames + index, tl.sqrt(tl.sum(squares, axis=0) / count))


def energy(pcm: torch.Tensor, frame_samples: int, window: int) -> torch.Tensor:
    """Launch; arguments as validated by `kernels.audio.rms_energy`, at least one whole frame.

    Args:
        pcm: float32 (n,) or (b, n).
        frame_samples: Samples per frame.
        window: Samples per window.

    Returns:
        float32 (frames,) or (b, frames).
    """
    rows = pcm if pcm.ndim == 2 else pcm[None]
    total = rows.shape[1]
    frames = total // frame_samples
    out = torch.empty((len(rows), frames), dtype=torch.float32, device=pcm.device)
    if len(rows):
        with device_of(pcm):
            _energy_kernel[(frames, len(rows))](
                rows,
                out,
                *rows.stride(),
                total,
                frames,
                frame_samples,
                window,
                (window - frame_samples) // 2,
                BLOCK=BLOCK,
            )
    return out if pcm.ndim == 2 else out[0]
