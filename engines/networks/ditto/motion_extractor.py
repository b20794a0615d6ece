"""Motion extractor M: a portrait -> pose, expression and canonical keypoints (ditto.md section 2.2)."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

DEPTHS = (3, 3, 9, 3)
WIDTHS = (96, 192, 384, 768)
EPS = 1e-6


class MotionInfo(NamedTuple):
    """What M reads from a face, raw network outputs in this order.

    Attributes:
        pitch: (B, 66) logits.
        yaw: (B, 66) logits.
        roll: (B, 66) logits.
        t: (B, 3).
        exp: (B, 63), 21 keypoints by xyz.
        scale: (B, 1).
        kp: (B, 63), canonical keypoints, 21 by xyz.
    """

    pitch: Tensor
    yaw: Tensor
    roll: Tensor
    t: Tensor
    exp: Tensor
    scale: Tensor
    kp: Tensor


class ChannelNorm(nn.Module):
    """Layer norm over the channels of (B, C, H, W), biased variance."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> the same shape."""
        normed = F.layer_norm(x.permute(0, 2, 3, 1), self.weight.shape, self.weight, self.bias, EPS)
        return normed.permute(0, 3, 1, 2)


class GlobalResponseNorm(nn.Module):
    """gamma * (x * n) + beta + x, n = the channel's L2 norm over the picture over the mean of those norms."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(1, 1, 1, channels))
        self.beta = nn.Parameter(torch.zeros(1, 1, 1, channels))

    def forward(self, x: Tensor) -> Tensor:
        """(B, H, W, C) -> the same shape."""
        norms = x.norm(p=2, dim=(1, 2), keepdim=True)
        share = norms / (norms.mean(dim=-1, keepdim=True) + EPS)
        out: Tensor = self.gamma * (x * share) + self.beta + x
        return out


class ConvNextBlock(nn.Module):
    """ConvNeXt V2 block."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=EPS)
        self.pwconv1 = nn.Linear(channels, 4 * channels)
        self.grn = GlobalResponseNorm(4 * channels)
        self.pwconv2 = nn.Linear(4 * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> the same shape."""
        y = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
        y = self.pwconv2(self.grn(F.gelu(self.pwconv1(y))))
        out: Tensor = x + y.permute(0, 3, 1, 2)
        return out


class ConvNextDetector(nn.Module):
    """ConvNeXt V2 tiny with one linear head per quantity."""

    def __init__(self) -> None:
        super().__init__()
        stem = nn.Sequential(nn.Conv2d(3, WIDTHS[0], 4, stride=4), ChannelNorm(WIDTHS[0]))
        halvings = [
            nn.Sequential(ChannelNorm(narrow), nn.Conv2d(narrow, wide, 2, stride=2))
            for narrow, wide in zip(WIDTHS[:-1], WIDTHS[1:], strict=True)
        ]
        self.downsample_layers = nn.ModuleList([stem, *halvings])
        self.stages = nn.ModuleList(
            nn.Sequential(*(ConvNextBlock(width) for _ in range(depth)))
            for width, depth in zip(WIDTHS, DEPTHS, strict=True)
        )
        self.norm = nn.LayerNorm(WIDTHS[-1], eps=EPS)
        self.fc_kp = nn.Linear(WIDTHS[-1], 63)
        self.fc_scale = nn.Linear(WIDTHS[-1], 1)
        self.fc_pitch = nn.Linear(WIDTHS[-1], 66)
        self.fc_yaw = nn.Linear(WIDTHS[-1], 66)
        self.fc_roll = nn.Linear(WIDTHS[-1], 66)
        self.fc_t = nn.Linear(WIDTHS[-1], 3)
        self.fc_exp = nn.Linear(WIDTHS[-1], 63)

    def forward(self, image: Tensor) -> MotionInfo:
        """(B, 3, 256, 256) -> all heads."""
        x = image
        for halve, stage in zip(self.downsample_layers, self.stages, strict=True):
            x = stage(halve(x))
        pooled = self.norm(x.mean(dim=(2, 3)))
        return MotionInfo(
            pitch=self.fc_pitch(pooled),
            yaw=self.fc_yaw(pooled),
            roll=self.fc_roll(pooled),
            t=self.fc_t(pooled),
            exp=self.fc_exp(pooled),
            scale=self.fc_scale(pooled),
            kp=self.fc_kp(pooled),
        )


class MotionExtractor(nn.Module):
    """M."""

    def __init__(self) -> None:
        super().__init__()
        self.detector = ConvNextDetector()

    def forward(self, image: Tensor) -> MotionInfo:
        """Read a face.

        Args:
            image: (B, 3, 256, 256), RGB in 0..1.
        """
        out: MotionInfo = self.detector(image)
        return out
