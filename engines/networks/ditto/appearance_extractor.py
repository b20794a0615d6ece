"""Appearance extractor F: a portrait -> a volume of features (ditto.md section 2.1)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from engines.networks.ditto.convolutions import ConvNormRelu2d

VOLUME_CHANNELS = 32
VOLUME_DEPTH = 16
RESIDUAL_BLOCKS = 6


class PreActivationBlock3d(nn.Module):
    """x + conv2(relu(norm2(conv1(relu(norm1(x))))))."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv3d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv3d(channels, channels, 3, padding=1)
        self.norm1 = nn.BatchNorm3d(channels)
        self.norm2 = nn.BatchNorm3d(channels)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, D, H, W) -> the same shape."""
        y = self.conv1(F.relu(self.norm1(x)))
        out: Tensor = x + self.conv2(F.relu(self.norm2(y)))
        return out


class AppearanceExtractor(nn.Module):
    """F."""

    def __init__(self) -> None:
        super().__init__()
        self.first = ConvNormRelu2d(3, 64)
        self.down_blocks = nn.ModuleList([ConvNormRelu2d(64, 128, pool=True), ConvNormRelu2d(128, 256, pool=True)])
        self.second = nn.Conv2d(256, VOLUME_CHANNELS * VOLUME_DEPTH, 1)
        self.resblocks_3d = nn.Sequential()
        for index in range(RESIDUAL_BLOCKS):
            self.resblocks_3d.add_module(f"3dr{index}", PreActivationBlock3d(VOLUME_CHANNELS))

    def forward(self, image: Tensor) -> Tensor:
        """Extract.

        Args:
            image: (B, 3, 256, 256), RGB in 0..1.

        Returns:
            f_s (B, 32, 16, 64, 64): channels, depth, height, width.
        """
        x = self.first(image)
        for block in self.down_blocks:
            x = block(x)
        volume = self.second(x).unflatten(1, (VOLUME_CHANNELS, VOLUME_DEPTH))
        out: Tensor = self.resblocks_3d(volume)
        return out
