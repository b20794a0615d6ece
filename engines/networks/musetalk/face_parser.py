"""The face parser: BiSeNet (Yu et al. 2018) over a ResNet-18 without a spatial path, 19 classes of CelebAMask-HQ.

Names are those of the public checkpoint `79999_iter.pth`: `cp` context path, `arm*` attention refinement, `ffm` feature fusion.
Its two auxiliary heads (`conv_out16`, `conv_out32`) serve training only; they are kept so that the file loads strictly.
"""

from __future__ import annotations

from typing import Final, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CLASSES: Final = 19
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Unit(nn.Module):
    """Convolution, batch norm, ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 3) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(n, inputs, h, w) -> (n, outputs, h, w)."""
        return F.relu(self.bn(self.conv(x)))


class Residual(nn.Module):
    """Two 3 x 3 convolutions over a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Sequential | None = None
        if inputs != outputs or stride != 1:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """(n, inputs, h, w) -> (n, outputs, h / stride, w / stride)."""
        shortcut = x if self.downsample is None else self.downsample(x)
        return F.relu(shortcut + self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))


class Backbone(nn.Module):
    """ResNet-18 without its classifier."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = _pair(width, width, 1)
        self.layer2 = _pair(width, 2 * width, 2)
        self.layer3 = _pair(2 * width, 4 * width, 2)
        self.layer4 = _pair(4 * width, 8 * width, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Features at 1/8, 1/16 and 1/32 of the picture."""
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        eighth = self.layer2(self.layer1(x))
        sixteenth = self.layer3(eighth)
        return eighth, sixteenth, self.layer4(sixteenth)


class Refinement(nn.Module):
    """Features weighed by channel, from their own mean."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = Unit(inputs, outputs)
        self.conv_atten = nn.Conv2d(outputs, outputs, 1, bias=False)
        self.bn_atten = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(n, inputs, h, w) -> (n, outputs, h, w)."""
        features = self.conv(x)
        weights = torch.sigmoid(self.bn_atten(self.conv_atten(_mean(features))))
        return cast(Tensor, features * weights)


class ContextPath(nn.Module):
    """Coarse features carried up to 1/8."""

    def __init__(self, width: int) -> None:
        super().__init__()
        wide = 2 * width
        self.resnet = Backbone(width)
        self.arm16 = Refinement(4 * width, wide)
        self.arm32 = Refinement(8 * width, wide)
        self.conv_head32 = Unit(wide, wide)
        self.conv_head16 = Unit(wide, wide)
        self.conv_avg = Unit(8 * width, wide, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The backbone's features at 1/8, and the context at 1/8."""
        eighth, sixteenth, coarsest = self.resnet(x)
        context = self.arm32(coarsest) + self.conv_avg(_mean(coarsest))
        context = self.conv_head32(_up(context, sixteenth))
        context = self.conv_head16(_up(self.arm16(sixteenth) + context, eighth))
        return eighth, context


class Fusion(nn.Module):
    """Joins features and context, again weighed by channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        wide = 4 * width
        self.convblk = Unit(wide, wide, 1)
        self.conv1 = nn.Conv2d(wide, wide // 4, 1, bias=False)
        self.conv2 = nn.Conv2d(wide // 4, wide, 1, bias=False)

    def forward(self, features: Tensor, context: Tensor) -> Tensor:
        """Two of (n, c, h, w) -> (n, 2 c, h, w)."""
        joined = self.convblk(torch.cat([features, context], dim=1))
        weights = torch.sigmoid(self.conv2(F.relu(self.conv1(_mean(joined)))))
        return cast(Tensor, joined * weights + joined)


class Head(nn.Module):
    """Features -> classes."""

    def __init__(self, inputs: int, middle: int) -> None:
        super().__init__()
        self.conv = Unit(inputs, middle)
        self.conv_out = nn.Conv2d(middle, CLASSES, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(n, inputs, h, w) -> (n, 19, h, w)."""
        return cast(Tensor, self.conv_out(self.conv(x)))


class FaceParser(nn.Module):
    """Says which part of a face each pixel is.

    Args:
        width: Channels of the backbone's first stage; 64 in the public checkpoint.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.cp = ContextPath(width)
        self.ffm = Fusion(width)
        self.conv_out = Head(4 * width, 4 * width)
        self.conv_out16 = Head(2 * width, width)
        self.conv_out32 = Head(2 * width, width)
        self.register_buffer("mean", torch.tensor(_MEAN).reshape(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(_STD).reshape(3, 1, 1), persistent=False)

    def forward(self, rgb: Tensor) -> Tensor:
        """Classes of the pixels.

        Args:
            rgb: float (n, 3, h, w), RGB 0..1, sides multiples of 32.

        Returns:
            int64 (n, h, w), 0..18.
        """
        features, context = self.cp((rgb - self.mean) / self.std)
        scores = self.conv_out(self.ffm(features, context))
        return F.interpolate(scores, rgb.shape[2:], mode="bilinear", align_corners=True).argmax(dim=1)


def _pair(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(Residual(inputs, outputs, stride), Residual(outputs, outputs, 1))


def _mean(x: Tensor) -> Tensor:
    return x.mean(dim=(2, 3), keepdim=True)


def _up(x: Tensor, like: Tensor) -> Tensor:
    return F.interpolate(x, like.shape[2:], mode="nearest")
