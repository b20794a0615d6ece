"""Convolution blocks shared by the Ditto networks; attribute names are the checkpoints'."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ConvNormRelu2d(nn.Module):
    """Conv2d k3 p1, BatchNorm2d, then (Leaky)ReLU.

    Args:
        in_channels: Channels in.
        out_channels: Channels out.
        slope: Slope below zero; 0 is ReLU.
        pool: Average over 2 x 2 afterwards.
    """

    def __init__(self, in_channels: int, out_channels: int, *, slope: float = 0.0, pool: bool = False) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(out_channels)
        self.slope = slope
        self.pool = pool

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C', H, W), or half the size when pooling."""
        y = F.leaky_relu(self.norm(self.conv(x)), self.slope)
        return F.avg_pool2d(y, 2) if self.pool else y


class ConvNormRelu3d(nn.Module):
    """Conv3d k3 p1, BatchNorm3d, ReLU."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, 3, padding=1)
        self.norm = nn.BatchNorm3d(out_channels)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, D, H, W) -> (B, C', D, H, W)."""
        return F.relu(self.norm(self.conv(x)))


class SpectralConv2d(nn.Module):
    """Convolution whose weight is divided by u . (W v) with the *stored* u and v.

    W is `weight_orig` flattened to (out, -1). The stored vectors define sigma; no power iteration happens at inference
    (ditto.md section 2.4).
    """

    weight_u: Tensor
    weight_v: Tensor

    def __init__(self, in_channels: int, out_channels: int, kernel: int, *, bias: bool = True) -> None:
        super().__init__()
        self.padding = kernel // 2
        self.weight_orig = nn.Parameter(torch.empty(out_channels, in_channels, kernel, kernel))
        nn.init.kaiming_uniform_(self.weight_orig, a=5**0.5)
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None
        self.register_buffer("weight_u", F.normalize(torch.randn(out_channels), dim=0))
        self.register_buffer("weight_v", F.normalize(torch.randn(in_channels * kernel * kernel), dim=0))

    def weight(self) -> Tensor:
        """The effective weight (out, in, k, k)."""
        sigma = torch.dot(self.weight_u, torch.mv(self.weight_orig.flatten(1), self.weight_v))
        return self.weight_orig / sigma

    def forward(self, x: Tensor) -> Tensor:
        """(B, in, H, W) -> (B, out, H, W)."""
        return F.conv2d(x, self.weight(), self.bias, padding=self.padding)


def fold_spectral(module: nn.Module) -> None:
    """Replace every `SpectralConv2d` inside a module by a plain convolution with its effective weight; same outputs, less work.

    Afterwards the module no longer has the checkpoint's names, and no product runs in half precision before the division.
    """
    for name, child in module.named_children():
        if not isinstance(child, SpectralConv2d):
            fold_spectral(child)
            continue
        weight = child.weight().detach()
        out_channels, in_channels, kernel, _ = weight.shape
        plain = nn.Conv2d(in_channels, out_channels, kernel, padding=child.padding, bias=child.bias is not None)
        plain.weight = nn.Parameter(weight, requires_grad=False)
        if child.bias is not None:
            plain.bias = nn.Parameter(child.bias.detach(), requires_grad=False)
        setattr(module, name, plain.train(child.training))
