"""Dense motion without its grid samples, folded and exportable: heat maps, hourglass, mask, deformation, occlusion."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from engines.ditto.folding import folded_conv3d
from engines.networks.ditto.convolutions import ConvNormRelu3d
from engines.networks.ditto.dense_motion import (
    COMPRESSED,
    HEATMAP_VARIANCE,
    KEYPOINTS,
    DenseMotionNetwork,
    HourglassDecoder,
    identity_grid,
)

SPARSE = KEYPOINTS + 1
"""The background first, then one per keypoint."""


class DenseMotionCore(nn.Module):
    """What lies between the two grid samples of the warp network.

    Batch norm is folded; positions, heat maps and the softmax are float32 whatever the type of the module. It has no grid sample
    and exports to ONNX (opset 18 and below). In float32 it equals `DenseMotionNetwork` up to rounding (2e-5 on formula weights).

    A caller computes `compress(volume)` once per source picture, samples it with `sparse_motions`
    (`kernels.sampling.grid_sample_3d`: one volume, 22 grids), runs this, and samples the volume with the deformation.

    Args:
        network: Where the weights come from. Not changed.
        depth: Depth of the feature volume.
        size: Its height and width.
    """

    def __init__(self, network: DenseMotionNetwork, depth: int = 16, size: int = 64) -> None:
        super().__init__()
        self.compressor = folded_conv3d(network.compress, network.norm)
        self.hourglass = fold_norms_3d(network.hourglass)
        self.mask = copy.deepcopy(network.mask)
        self.occlusion = copy.deepcopy(network.occlusion)
        self.extent = (depth, size, size)
        self.eval().requires_grad_(False)

    def compress(self, volume: Tensor) -> Tensor:
        """Source only: (B, 32, D, H, W) -> (B, 4, D, H, W)."""
        return torch.relu(self.compressor(volume))

    def sparse_motions(self, kp_source: Tensor, kp_driving: Tensor) -> Tensor:
        """Sampling positions of the background and of every keypoint, float32 (B * 22, D, H, W, 3)."""
        shift = torch.nn.functional.pad((kp_source - kp_driving).float(), (0, 0, 1, 0))
        return (identity_grid(*self.extent, shift) + shift[:, :, None, None, None]).flatten(0, 1)

    def forward(self, deformed: Tensor, kp_source: Tensor, kp_driving: Tensor) -> tuple[Tensor, Tensor]:
        """Find the motion.

        Args:
            deformed: (B, 88, D, H, W), the compressed features sampled by every sparse motion, channel = 4 * motion + feature.
            kp_source: float32 (B, 21, 3).
            kp_driving: float32 (B, 21, 3).

        Returns:
            float32 deformation (B, D, H, W, 3), sampling positions x y z in -1..1; occlusion (B, 1, H, W) in 0..1, type of
            `deformed`.
        """
        depth, height, width = self.extent
        grid = identity_grid(depth, height, width, kp_source.float())
        heat = _heat(grid, kp_driving) - _heat(grid, kp_source)
        heat = torch.nn.functional.pad(heat, (0, 0, 0, 0, 0, 0, 1, 0)).to(deformed.dtype)
        joined = torch.cat([heat.unsqueeze(2), deformed.reshape(-1, SPARSE, COMPRESSED, depth, height, width)], dim=2)
        features = self.hourglass(joined.flatten(1, 2))
        mask = torch.softmax(self.mask(features).float(), dim=1)
        # the 22 weights sum to 1, so their positions' mean is the identity grid plus the weighted shifts
        shift = (kp_source - kp_driving).float()
        moved = torch.matmul(mask[:, 1:].flatten(2).transpose(1, 2), shift)
        deformation = grid + moved.reshape(-1, depth, height, width, 3)
        return deformation, torch.sigmoid(self.occlusion(features.flatten(1, 2)))


def fold_norms_3d(module: nn.Module) -> nn.Module:
    """A copy in which every batch norm of a 3-D block sits in the convolution before it."""
    made = copy.deepcopy(module)
    for part in made.modules():
        if isinstance(part, ConvNormRelu3d | HourglassDecoder):
            part.conv = folded_conv3d(part.conv, part.norm)
            part.norm = nn.Identity()  # type: ignore[assignment]  # the block calls what stands here
    return made


def _heat(grid: Tensor, keypoints: Tensor) -> Tensor:
    """Gaussians, float32 (B, 21, D, H, W)."""
    distance = (grid - keypoints.float()[:, :, None, None, None]).square().sum(-1)
    return torch.exp(-0.5 / HEATMAP_VARIANCE * distance)
