"""Dense motion: 21 keypoint pairs -> a 3-D deformation field and an occlusion map (ditto.md section 2.3)."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engines.networks.ditto.convolutions import ConvNormRelu3d

KEYPOINTS = 21
COMPRESSED = 4
HEATMAP_VARIANCE = 0.01
LEVEL_CHANNELS = (64, 128, 256, 512, 1024)


class DenseMotion(NamedTuple):
    """What the dense motion network finds.

    Attributes:
        deformation: (B, D, H, W, 3), sampling positions, x y z in -1..1.
        occlusion: (B, 1, H, W) in 0..1.
        mask: (B, 22, D, H, W), softmax weights; index 0 is the background.
    """

    deformation: Tensor
    occlusion: Tensor
    mask: Tensor


def identity_grid(depth: int, height: int, width: int, like: Tensor) -> Tensor:
    """(D, H, W, 3), x y z, each -1..1 inclusive."""
    axes = [
        torch.arange(n, dtype=like.dtype, device=like.device) * (2.0 / (n - 1)) - 1.0 for n in (depth, height, width)
    ]
    z, y, x = torch.meshgrid(*axes, indexing="ij")
    return torch.stack([x, y, z], dim=-1)


def sample_volume(volume: Tensor, grid: Tensor) -> Tensor:
    """Trilinear samples, zeros outside, corners *not* aligned: with `identity_grid` no exact identity, as trained.

    Args:
        volume: (B, C, D, H, W).
        grid: (B, D', H', W', 3).
    """
    return F.grid_sample(volume, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


class DownBlock3d(ConvNormRelu3d):
    """Convolution block, then halving of height and width; depth stays."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, D, H, W) -> (B, C', D, H / 2, W / 2)."""
        return F.avg_pool3d(super().forward(x), (1, 2, 2))


class UpBlock3d(ConvNormRelu3d):
    """Nearest doubling of height and width, then the convolution block."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, D, H, W) -> (B, C', D, 2 H, 2 W)."""
        return super().forward(F.interpolate(x, scale_factor=(1, 2, 2)))


class HourglassEncoder(nn.Module):
    """Five levels down."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        channels = (in_channels, *LEVEL_CHANNELS)
        self.down_blocks = nn.ModuleList(
            DownBlock3d(narrow, wide) for narrow, wide in zip(channels[:-1], channels[1:], strict=True)
        )

    def forward(self, x: Tensor) -> list[Tensor]:
        """The input and every level's output, finest first."""
        levels = [x]
        for block in self.down_blocks:
            levels.append(block(levels[-1]))
        return levels


class HourglassDecoder(nn.Module):
    """Five levels up, each joined with the encoder's level of that size."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        inputs = (1024, 1024, 512, 256, 128)
        outputs = (512, 256, 128, 64, 32)
        self.up_blocks = nn.ModuleList(UpBlock3d(i, o) for i, o in zip(inputs, outputs, strict=True))
        self.out_channels = outputs[-1] + in_channels
        self.conv = nn.Conv3d(self.out_channels, self.out_channels, 3, padding=1)
        self.norm = nn.BatchNorm3d(self.out_channels)

    def forward(self, levels: list[Tensor]) -> Tensor:
        """Encoder levels, finest first -> (B, 32 + in_channels, D, H, W)."""
        x = levels[-1]
        for block, skip in zip(self.up_blocks, reversed(levels[:-1]), strict=True):
            x = torch.cat([block(x), skip], dim=1)
        return F.relu(self.norm(self.conv(x)))


class Hourglass(nn.Module):
    """Encoder and decoder."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.encoder = HourglassEncoder(in_channels)
        self.decoder = HourglassDecoder(in_channels)

    def forward(self, x: Tensor) -> Tensor:
        """(B, in_channels, D, H, W) -> (B, 32 + in_channels, D, H, W)."""
        out: Tensor = self.decoder(self.encoder(x))
        return out


class DenseMotionNetwork(nn.Module):
    """The network.

    Args:
        channels: Channels of the feature volume.
        depth: Its depth.
    """

    def __init__(self, channels: int = 32, depth: int = 16) -> None:
        super().__init__()
        self.compress = nn.Conv3d(channels, COMPRESSED, 1)
        self.norm = nn.BatchNorm3d(COMPRESSED)
        self.hourglass = Hourglass((KEYPOINTS + 1) * (COMPRESSED + 1))
        features = self.hourglass.decoder.out_channels
        self.mask = nn.Conv3d(features, KEYPOINTS + 1, 7, padding=3)
        self.occlusion = nn.Conv2d(features * depth, 1, 7, padding=3)

    def forward(self, feature_3d: Tensor, kp_source: Tensor, kp_driving: Tensor) -> DenseMotion:
        """Find the motion.

        Args:
            feature_3d: (B, 32, D, H, W).
            kp_source: (B, 21, 3).
            kp_driving: (B, 21, 3).
        """
        batch, _, depth, height, width = feature_3d.shape
        compressed = F.relu(self.norm(self.compress(feature_3d)))
        grid = identity_grid(depth, height, width, feature_3d)
        motions = self._sparse_motions(grid, kp_source, kp_driving)
        repeated = compressed.repeat_interleave(KEYPOINTS + 1, dim=0)
        deformed = sample_volume(repeated, motions.flatten(0, 1)).reshape(
            batch, KEYPOINTS + 1, -1, depth, height, width
        )
        heat = self._heat_difference(grid, kp_source, kp_driving)
        joined = torch.cat([heat.unsqueeze(2), deformed], dim=2).flatten(1, 2)
        features = self.hourglass(joined)
        mask = torch.softmax(self.mask(features), dim=1)
        deformation = (motions * mask.unsqueeze(-1)).sum(dim=1)
        occlusion = torch.sigmoid(self.occlusion(features.flatten(1, 2)))
        return DenseMotion(deformation, occlusion, mask)

    @staticmethod
    def _sparse_motions(grid: Tensor, kp_source: Tensor, kp_driving: Tensor) -> Tensor:
        """(B, 22, D, H, W, 3): the identity, then each keypoint's translation."""
        shift = (kp_source - kp_driving)[:, :, None, None, None]
        background = grid.expand(kp_source.shape[0], 1, *grid.shape)
        return torch.cat([background, grid + shift], dim=1)

    @staticmethod
    def _heat_difference(grid: Tensor, kp_source: Tensor, kp_driving: Tensor) -> Tensor:
        """(B, 22, D, H, W): Gaussians around the driving minus around the source keypoints; zeros for the background."""

        def heat(keypoints: Tensor) -> Tensor:
            distance = (grid - keypoints[:, :, None, None, None]).square().sum(-1)
            return torch.exp(-0.5 * distance / HEATMAP_VARIANCE)

        return F.pad(heat(kp_driving) - heat(kp_source), (0, 0, 0, 0, 0, 0, 1, 0))
