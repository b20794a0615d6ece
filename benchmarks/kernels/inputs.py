"""Inputs of the kernel benchmarks: random pictures, a turned and enlarged crop, several sets that together exceed the L2 cache."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from kernels.nv12.composite_device import CompositeTarget, DevicePlan, make_target, upload_plan
from kernels.nv12.composite_plan import CROP_SIZE, CompositePlan, plan_composite

CANVAS_W, CANVAS_H = 1080, 1920
ROI_W, ROI_H = 656, 640
ROI_X, ROI_Y = 212, 420
BATCH = 8
L2_BYTES = 60 * 2**20
PIXELS = ROI_W * ROI_H


@dataclass(frozen=True)
class Roi:
    """The rectangle of every case."""

    x: int = ROI_X
    y: int = ROI_Y
    w: int = ROI_W
    h: int = ROI_H


def sets_beyond_l2(bytes_per_set: int) -> int:
    """How many sets touch three times the L2 cache."""
    return -(-3 * L2_BYTES // bytes_per_set)


def random_canvases(n: int) -> torch.Tensor:
    """uint8 (n, 2880, 1080), NV12."""
    return torch.randint(0, 256, (n, CANVAS_H * 3 // 2, CANVAS_W), dtype=torch.uint8, device="cuda")


def random_face(dtype: torch.dtype, packed: bool) -> torch.Tensor:
    """(8, 3, 640, 656), 0..255; pixels packed (NHWC in memory) or planar."""
    shape = (BATCH, ROI_H, ROI_W, 3) if packed else (BATCH, 3, ROI_H, ROI_W)
    values = torch.randint(0, 256, shape, dtype=torch.uint8, device="cuda").to(dtype)
    return values.permute(0, 3, 1, 2) if packed else values


def face_bytes(dtype: torch.dtype) -> int:
    """Least traffic of a splice of 8: every face value read once, every NV12 byte of the rectangle written once."""
    return BATCH * PIXELS * 3 * dtype.itemsize + BATCH * PIXELS * 3 // 2


def composite_bytes(n: int) -> int:
    """Least traffic of a composite of n pictures of one avatar: crops, packed background and mask read once, NV12 written once."""
    return n * CROP_SIZE * CROP_SIZE * 3 + PIXELS * 8 + n * PIXELS * 3 // 2


def bench_plan(colour: str = "bt709", chroma: str = "mean") -> CompositePlan:
    """A crop enlarged by 1.28 and turned by 2 degrees over the whole rectangle, soft mask, random background."""
    c, s = 1.28 * np.cos(np.radians(2.0)), 1.28 * np.sin(np.radians(2.0))
    centre = np.array([ROI_X + ROI_W / 2, ROI_Y + ROI_H / 2])
    turn = np.array([[c, -s], [s, c]])
    matrix = np.concatenate([turn, (centre - turn @ np.array([256.0, 256.0]))[:, None]], axis=1)
    ramp = np.clip(np.minimum(np.arange(CROP_SIZE), np.arange(CROP_SIZE)[::-1]) / 64.0, 0.0, 1.0)
    background = np.random.default_rng(3).integers(0, 256, (ROI_H, ROI_W, 3), dtype=np.uint8)
    mask = np.outer(ramp, ramp).astype(np.float32)
    return plan_composite(matrix, mask, background, Roi(), colour=colour, chroma=chroma)


@dataclass(frozen=True)
class CompositeSet:
    """Eight crops, eight sessions' canvases, and the launch tables."""

    crops: torch.Tensor
    canvases: torch.Tensor
    addresses: torch.Tensor
    affine: torch.Tensor


def composite_set(plan: DevicePlan) -> CompositeSet:
    """Make a set of eight pictures of one avatar."""
    canvases = random_canvases(BATCH)
    targets = [make_target(plan, canvases[i : i + 1], ROI_X, ROI_Y) for i in range(BATCH)]
    return CompositeSet(
        crops=torch.randint(0, 256, (BATCH, CROP_SIZE, CROP_SIZE, 3), dtype=torch.uint8, device="cuda"),
        canvases=canvases,
        addresses=torch.stack([target.addresses for target in targets]),
        affine=torch.stack([plan.affine for _ in targets]),
    )


def session_target() -> CompositeTarget:
    """Make the target of one session with its own canvas."""
    return make_target(upload_plan(bench_plan(), "cuda"), random_canvases(1), ROI_X, ROI_Y)
