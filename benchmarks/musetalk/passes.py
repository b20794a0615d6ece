"""The picture kernels of MuseTalk alone: faces to NV12 rectangles, and whole BGR frames to NV12."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from benchmarks.core.gpu_timing import between_events_ms, copy_bytes_per_s, replayed_ms
from benchmarks.musetalk.end_to_end import put_on_host
from kernels.nv12.colour import colour_matrix
from kernels.nv12.from_bgr import bgr_to_nv12, bgr_to_nv12_torch
from kernels.nv12.from_rgb import rgb_to_nv12
from kernels.nv12.painted import painted_nv12_torch
from kernels.nv12.painting import Painting
from pipeline.musetalk.avatar_tensors import unpack
from pipeline.types import Avatar

BATCH: Final = 32
_L2_BYTES: Final = 60_000_000


@dataclass(frozen=True)
class Pass:
    """A kernel's times, and what they stand beside.

    Attributes:
        ms: Of 32 pictures, device time.
        beside_ms: The same by the baseline.
        bound_ms: Bytes that must be read and written, over what a copy moves.
        differing: Bytes that differ from the separate passes.
    """

    ms: list[float]
    beside_ms: float
    bound_ms: float
    differing: int


def faces_to_nv12(avatar: Avatar, canvases: list[np.ndarray]) -> Pass:
    """32 faces into 32 frames of an avatar: one launch, and resize, blend and conversion one after the other on the host."""
    from kernels.nv12.painted_triton import paint_into, paint_table

    tensors, matrix = unpack(avatar), colour_matrix("bt709")
    places = [i % len(tensors) for i in range(BATCH)]
    faces = torch.randint(0, 256, (BATCH, 256, 256, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    paintings = []
    for i, place in enumerate(places):
        patch, mask = (torch.from_numpy(np.array(one[place])) for one in (tensors.patches, tensors.masks))
        box, (x, y) = tensors.box(place), (int(number) for number in tensors.corners[place])
        paintings.append(Painting(i, patch, mask, (box.left - x, box.top - y, box.right - x, box.bottom - y), 1.0))
    want = painted_nv12_torch(faces, paintings)
    high, wide = paintings[0].size
    sets = []
    for _ in range(1 + _L2_BYTES // max(1, BATCH * high * wide * 4)):
        on_device = [Painting(one.face, one.patch.cuda(), one.mask.cuda(), one.box, one.share) for one in paintings]
        faces_there = faces.cuda()
        sets.append(
            (torch.empty_like(want, device="cuda"), faces_there, paint_table(faces_there, on_device), on_device)
        )

    def launch(index: int) -> None:
        out, there, table, _ = sets[index]
        paint_into(out, there, table, high, wide, matrix)

    launch(0)
    differing = int((sets[0][0].cpu() != want).sum())
    ms = replayed_ms([lambda i=i: launch(i) for i in range(len(sets))], repeats=max(1, 24 // len(sets)))  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
    pictures = [canvases[place].copy() for place in places]
    began = time.perf_counter()
    for i, place in enumerate(places):
        rgb_to_nv12(put_on_host(faces[i].numpy(), avatar, pictures[i], place))
    beside = 1e3 * (time.perf_counter() - began)
    size = BATCH * (256 * 256 * 3 + high * wide * 4) + want.numel()
    return Pass(ms, beside, 1e3 * size / max(copy_bytes_per_s(2**30).values()), differing)


def bgr_frames() -> Pass:
    """32 frames of 1080x1920: one launch, and the same in plain torch on the device."""
    frames = [torch.randint(0, 256, (BATCH, 1920, 1080, 3), dtype=torch.uint8, device="cuda") for _ in range(2)]
    differing = int((bgr_to_nv12(frames[0][:2]) != bgr_to_nv12_torch(frames[0][:2])).sum())
    ms = replayed_ms([lambda f=f: bgr_to_nv12(f) for f in frames], repeats=8)  # type: ignore[misc]  # as above
    beside = between_events_ms(lambda: bgr_to_nv12_torch(frames[0][:8]), count=2, samples=5)
    size = BATCH * 1920 * 1080 * 4.5
    return Pass(ms, 4 * beside[len(beside) // 2], 1e3 * size / max(copy_bytes_per_s(2**30).values()), differing)
