"""Building blocks of IFNet. Attribute names are the checkpoint's; LeakyReLU slopes are 0.2 throughout."""

from __future__ import annotations

from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kernels.errors import InvalidInputError
from kernels.rife.flow_refine import local_mean

SLOPE: Final = 0.2
RESIDUALS_PER_BLOCK: Final = 8
FLOW_CHANNELS: Final = 4
HEAD_CHANNELS: Final = 6
"""Flow (4), logit (1) and one channel that nothing reads."""


class ScaledResidual(nn.Module):
    """y = LeakyReLU(conv3x3(x) * beta + x) with a learned beta per channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.beta = nn.Parameter(torch.ones(1, channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C, H, W)."""
        return F.leaky_relu(self.conv(x) * self.beta + x, SLOPE)


def _down(in_channels: int, out_channels: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(in_channels, out_channels, 3, stride=2, padding=1), nn.LeakyReLU(SLOPE))


class IFBlock(nn.Module):
    """A refinement step.

    Args:
        in_channels: Channels of the input with the flow appended.
        channels: Width inside.
        carried: Feature channels returned for the next block, 0 or 8.

    Attributes:
        window: What the block says is averaged over this many grid points a side, odd; 1 leaves it as it is.
    """

    def __init__(self, in_channels: int, channels: int, carried: int) -> None:
        super().__init__()
        head = HEAD_CHANNELS if not carried else FLOW_CHANNELS + 1 + carried
        self.carried = carried
        self.window = 1
        self.conv0 = nn.Sequential(_down(in_channels, channels // 2), _down(channels // 2, channels))
        self.convblock = nn.Sequential(*(ScaledResidual(channels) for _ in range(RESIDUALS_PER_BLOCK)))
        self.lastconv = nn.Sequential(nn.ConvTranspose2d(channels, 4 * head, 4, 2, 1), nn.PixelShuffle(2))

    def forward(self, x: Tensor, flow: Tensor | None, scale: float) -> tuple[Tensor, Tensor, Tensor | None]:
        """Refine.

        Args:
            x: (B, C, H, W) at full padded resolution.
            flow: (B, 4, H, W) in pixels, None for the first block.
            scale: The block works at 1 / scale.

        Returns:
            Change of flow (B, 4, H, W), logit (B, 1, H, W), carried features (B, carried, H, W) or None.
        """
        small = block_input(x, flow, scale)
        out = resize(local_mean(self.lastconv(self.convblock(self.conv0(small))), self.window), scale)
        features = out[:, FLOW_CHANNELS + 1 :] if self.carried else None
        return out[:, :FLOW_CHANNELS] * scale, out[:, FLOW_CHANNELS : FLOW_CHANNELS + 1], features


class PReluBlock(nn.Module):
    """A refinement step of 4.0: PReLU instead of LeakyReLU, one residual around eight convolutions, a head at half the size.

    Args:
        in_channels: Channels of the input with the flow appended.
        channels: Width inside.
        carried: 0; this version hands nothing on.
    """

    def __init__(self, in_channels: int, channels: int, carried: int) -> None:
        super().__init__()
        if carried:
            raise InvalidInputError("carried", str(carried), "0")
        self.conv0 = nn.Sequential(_prelu(in_channels, channels // 2, 2), _prelu(channels // 2, channels, 2))
        self.convblock = nn.Sequential(*(_prelu(channels, channels, 1) for _ in range(RESIDUALS_PER_BLOCK)))
        self.lastconv = nn.ConvTranspose2d(channels, FLOW_CHANNELS + 1, 4, 2, 1)

    def forward(self, x: Tensor, flow: Tensor | None, scale: float) -> tuple[Tensor, Tensor, Tensor | None]:
        """Refine; arguments and results as in `IFBlock.forward`."""
        features = self.conv0(block_input(x, flow, scale))
        out = resize(self.lastconv(self.convblock(features) + features), 2.0 * scale)
        return out[:, :FLOW_CHANNELS] * (2.0 * scale), out[:, FLOW_CHANNELS:], None


def _prelu(in_channels: int, out_channels: int, stride: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(in_channels, out_channels, 3, stride, 1), nn.PReLU(out_channels))


def block_input(x: Tensor, flow: Tensor | None, scale: float) -> Tensor:
    """Everything at 1 / scale, the flow last and in pixels of that size."""
    small = resize(x, 1.0 / scale)
    return small if flow is None else torch.cat([small, resize(flow, 1.0 / scale) / scale], dim=1)


def resize(x: Tensor, factor: float) -> Tensor:
    """Bilinear, no antialiasing, corners not aligned."""
    if factor == 1.0:
        return x
    return F.interpolate(x, scale_factor=factor, mode="bilinear", align_corners=False)


class PlainEncoder(nn.Sequential):
    """Image encoder of 4.7 to 4.9: conv to 16 at half size, no activation, deconv to 4 channels at full size."""

    def __init__(self) -> None:
        super().__init__(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ConvTranspose2d(16, 4, 4, 2, 1))


class StackedEncoder(nn.Module):
    """Image encoder of 4.25: three convolutions with LeakyReLU at half size, deconv to 4 channels at full size."""

    def __init__(self) -> None:
        super().__init__()
        self.cnn0 = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.cnn1 = nn.Conv2d(16, 16, 3, padding=1)
        self.cnn2 = nn.Conv2d(16, 16, 3, padding=1)
        self.cnn3 = nn.ConvTranspose2d(16, 4, 4, 2, 1)

    def forward(self, image: Tensor) -> Tensor:
        """(B, 3, H, W) in 0..1 -> (B, 4, H, W)."""
        x = F.leaky_relu(self.cnn0(image), SLOPE)
        x = F.leaky_relu(self.cnn1(x), SLOPE)
        x = F.leaky_relu(self.cnn2(x), SLOPE)
        out: Tensor = self.cnn3(x)
        return out
