"""Input of the dense motion network: 22 translated views of a source volume and the keypoints' heat maps, in one pass.

View 0 is the volume sampled at the identity grid, view k at the grid moved by source minus driving keypoint k, with the semantics
of `kernels.sampling.grid_sample_3d`. The heat of keypoint k is exp(-|grid - driving|^2 / 0.02) - exp(-|grid - source|^2 / 0.02);
view 0 has none.

Volumes are channels-last, (batch, depth, height, width, channels). `sparse_motion_torch` is the reference and the CPU path; CUDA
tensors take `kernels.sampling.sparse_motion_triton`.
"""

from __future__ import annotations

import importlib.util

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.errors import ShapeError
from kernels.sampling.dense_motion import CHANNELS, FEATURES, HEAT_FIRST, KEYPOINTS, VARIANCE, VIEWS, identity


def sparse_motion(volume: Tensor, kp_source: Tensor, kp_driving: Tensor, wide: int) -> tuple[Tensor, Tensor]:
    """Sample and draw.

    Args:
        volume: float16 or float32 (b, d, h, w, 4), contiguous.
        kp_source: float32 (b, 21, 3), x y z in -1..1.
        kp_driving: float32 (b, 21, 3).
        wide: Channels of the second result, a multiple of 16 and at least 112.

    Returns:
        (b, d, h, w, 112), and (b, d, h, w, wide) whose last 112 channels are the same and whose first are not written: they are for
        a caller that joins something in front. Types of `volume`.

    Raises:
        ShapeError: Operands that do not fit.
    """
    batch = volume.shape[0]
    if volume.dim() != 5 or volume.shape[4] != FEATURES or not volume.is_contiguous():
        raise ShapeError("volume", str(tuple(volume.shape)), f"contiguous (b, d, h, w, {FEATURES})")
    if kp_source.shape != (batch, KEYPOINTS, 3) or kp_driving.shape != kp_source.shape or wide < CHANNELS or wide % 16:
        got = f"{tuple(kp_source.shape)}, {tuple(kp_driving.shape)}, {wide}"
        raise ShapeError("keypoints, wide", got, f"({batch}, {KEYPOINTS}, 3) twice, >= {CHANNELS} and a multiple of 16")
    if volume.device.type != "cpu" and importlib.util.find_spec("triton") is not None:
        from kernels.sampling.sparse_motion_triton import sample

        return sample(volume, kp_source, kp_driving, wide)
    return sparse_motion_torch(volume, kp_source, kp_driving, wide)


def sparse_motion_torch(volume: Tensor, kp_source: Tensor, kp_driving: Tensor, wide: int) -> tuple[Tensor, Tensor]:
    """`sparse_motion` in plain torch; the channels that are not written are zeros."""
    batch, depth, height, width, _ = volume.shape
    grid = identity(depth, height, width, volume.device)
    shift = F.pad(kp_source - kp_driving, (0, 0, 1, 0)).float()
    places = (grid + shift[:, :, None, None, None]).flatten(0, 1)
    repeated = volume.float().permute(0, 4, 1, 2, 3).repeat_interleave(VIEWS, dim=0)
    views = F.grid_sample(repeated, places, mode="bilinear", padding_mode="zeros", align_corners=False)
    views = views.reshape(batch, HEAT_FIRST, depth, height, width).permute(0, 2, 3, 4, 1)
    heat = (_heat(grid, kp_driving) - _heat(grid, kp_source)).permute(0, 2, 3, 4, 1)
    joined = torch.cat([views, F.pad(heat, (1, CHANNELS - HEAT_FIRST - VIEWS))], dim=-1).to(volume.dtype)
    return joined, F.pad(joined, (wide - CHANNELS, 0))


def _heat(grid: Tensor, keypoints: Tensor) -> Tensor:
    distance = (grid - keypoints.float()[:, :, None, None, None]).square().sum(-1)
    return torch.exp(distance * (-0.5 / VARIANCE))
