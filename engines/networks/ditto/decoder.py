"""SPADE decoder G: warped features -> a face crop (ditto.md section 2.4)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engines.networks.ditto.convolutions import SpectralConv2d

SEGMENT_CHANNELS = 256
SHARED_CHANNELS = 128
SLOPE = 0.2
MIDDLE_BLOCKS = 6


class Spade(nn.Module):
    """Instance norm without parameters, then scale and shift read from the segmentation map."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.mlp_shared = nn.Sequential(nn.Conv2d(SEGMENT_CHANNELS, SHARED_CHANNELS, 3, padding=1), nn.ReLU())
        self.mlp_gamma = nn.Conv2d(SHARED_CHANNELS, channels, 3, padding=1)
        self.mlp_beta = nn.Conv2d(SHARED_CHANNELS, channels, 3, padding=1)

    def forward(self, x: Tensor, segment: Tensor) -> Tensor:
        """(B, C, H, W), (B, 256, h, w) -> (B, C, H, W)."""
        shared = self.mlp_shared(F.interpolate(segment, size=x.shape[-2:], mode="nearest"))
        out: Tensor = F.instance_norm(x) * (1.0 + self.mlp_gamma(shared)) + self.mlp_beta(shared)
        return out


class SpadeResidualBlock(nn.Module):
    """Two normalised convolutions and a shortcut around them, which is normalised and convolved (1 x 1) where the width changes."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        middle = min(in_channels, out_channels)
        self.widens = in_channels != out_channels
        self.conv_0 = SpectralConv2d(in_channels, middle, 3)
        self.conv_1 = SpectralConv2d(middle, out_channels, 3)
        self.norm_0 = Spade(in_channels)
        self.norm_1 = Spade(middle)
        if self.widens:
            self.conv_s = SpectralConv2d(in_channels, out_channels, 1, bias=False)
            self.norm_s = Spade(in_channels)

    def forward(self, x: Tensor, segment: Tensor) -> Tensor:
        """(B, in, H, W), (B, 256, h, w) -> (B, out, H, W)."""
        shortcut = self.conv_s(self.norm_s(x, segment)) if self.widens else x
        y = self.conv_0(F.leaky_relu(self.norm_0(x, segment), SLOPE))
        y = self.conv_1(F.leaky_relu(self.norm_1(y, segment), SLOPE))
        out: Tensor = shortcut + y
        return out


class SpadeDecoder(nn.Module):
    """G."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Conv2d(SEGMENT_CHANNELS, 512, 3, padding=1)
        for index in range(MIDDLE_BLOCKS):
            self.add_module(f"G_middle_{index}", SpadeResidualBlock(512, 512))
        self.up_0 = SpadeResidualBlock(512, 256)
        self.up_1 = SpadeResidualBlock(256, 64)
        self.conv_img = nn.Sequential(nn.Conv2d(64, 3 * 2 * 2, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, feature: Tensor) -> Tensor:
        """Draw.

        Args:
            feature: (B, 256, 64, 64), from the warp network.

        Returns:
            (B, 3, 512, 512), RGB in 0..1.
        """
        x = self.fc(feature)
        for index in range(MIDDLE_BLOCKS):
            x = getattr(self, f"G_middle_{index}")(x, feature)
        x = self.up_0(F.interpolate(x, scale_factor=2), feature)
        x = self.up_1(F.interpolate(x, scale_factor=2), feature)
        return torch.sigmoid(self.conv_img(F.leaky_relu(x, SLOPE)))
