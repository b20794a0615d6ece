"""Trilinear samples of feature volumes, with the semantics that the public dense motion networks were trained with.

A grid coordinate g in -1..1 along an axis of n voxels means position ((g + 1) n - 1) / 2: corners are *not* aligned, although
the networks' identity grid (2 i / (n - 1) - 1) is written as if they were, so the identity grid is not an exact identity.
Neighbours outside count as zero. Positions and weights are fp32 whatever the dtype of the volume: a half-precision grid is off
by 1/60 of a voxel at 64.

One volume may serve several consecutive grids (22 sparse motions sample one frame's features), which spares the repeated
volume.

`grid_sample_3d_torch` is the reference and the CPU path; CUDA tensors take `kernels.sampling.grid_sample_3d_triton`. Inference
only: no gradient.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels.errors import ShapeError

VOLUME_TYPES = (torch.float16, torch.bfloat16, torch.float32)


def grid_sample_3d(volume: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    """Sample volumes.

    Args:
        volume: float16, bfloat16 or float32 (b, c, d, h, w).
        grid: float16, bfloat16 or float32 (b * k, d', h', w', 3), x (width), y, z (depth); grids i k to (i + 1) k - 1 sample
            volume i.

    Returns:
        (b * k, c, d', h', w'), dtype of `volume`, contiguous.

    Raises:
        ShapeError: Ranks, dtypes, devices or batch sizes that do not fit, or an empty axis.
    """
    _validate(volume, grid)
    if volume.device.type == "cpu":
        return grid_sample_3d_torch(volume, grid)
    from kernels.sampling.grid_sample_3d_triton import sample  # here, so that Triton is loaded on a GPU only

    return sample(volume, grid)


def grid_sample_3d_torch(volume: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    """The formula in plain torch on any device; arguments, result and errors as in `grid_sample_3d`."""
    _validate(volume, grid)
    repeated = volume.float().repeat_interleave(grid.shape[0] // volume.shape[0], dim=0)
    sampled = F.grid_sample(repeated, grid.float(), mode="bilinear", padding_mode="zeros", align_corners=False)
    return sampled.to(volume.dtype)


def _validate(volume: torch.Tensor, grid: torch.Tensor) -> None:
    got = f"{volume.dtype} {tuple(volume.shape)}"
    if volume.ndim != 5 or volume.dtype not in VOLUME_TYPES or 0 in volume.shape:
        raise ShapeError("volume", got, "float16, bfloat16 or float32 (b, c, d, h, w), no empty axis")
    got = f"{grid.dtype} {tuple(grid.shape)} on {grid.device}"
    if grid.ndim != 5 or grid.shape[4] != 3 or grid.dtype not in VOLUME_TYPES or 0 in grid.shape:
        raise ShapeError("grid", got, "float16, bfloat16 or float32 (b * k, d, h, w, 3), no empty axis")
    if grid.shape[0] % volume.shape[0] or grid.device != volume.device:
        raise ShapeError("grid", got, f"a batch that {volume.shape[0]} divides, on {volume.device}")
