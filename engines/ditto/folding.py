"""Batch norm and spectral norm folded into the convolution next to them: the same function with fewer steps."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn

from engines.networks.ditto.convolutions import SpectralConv2d

Conv = nn.Conv2d | nn.Conv3d
Norm = nn.BatchNorm2d | nn.BatchNorm3d
ConvType = TypeVar("ConvType", nn.Conv2d, nn.Conv3d)


def folded_parameters(conv: Conv, norm: Norm | None = None) -> tuple[Tensor, Tensor]:
    """Weight and bias of a convolution followed by a batch norm with stored statistics, computed in float64.

    Args:
        conv: The convolution.
        norm: What follows it, if anything.

    Returns:
        float32 weight (out, in, ...) and bias (out,).
    """
    weight = conv.weight.detach().double()
    bias = torch.zeros(weight.shape[0], dtype=torch.float64) if conv.bias is None else conv.bias.detach().double()
    if norm is not None:
        scale, shift = norm_scale_shift(norm)
        weight = weight * scale.reshape(-1, *(1 for _ in weight.shape[1:]))
        bias = bias * scale + shift
    return weight.float(), bias.float()


def norm_scale_shift(norm: Norm) -> tuple[Tensor, Tensor]:
    """A batch norm with stored statistics as x * scale + shift, float64 (channels,) each."""
    assert norm.running_mean is not None and norm.running_var is not None  # noqa: S101 - what these networks have
    scale = (norm.running_var.double() + norm.eps).rsqrt()
    if norm.weight is not None:
        scale = scale * norm.weight.detach().double()
    shift = -norm.running_mean.double() * scale
    if norm.bias is not None:
        shift = shift + norm.bias.detach().double()
    return scale, shift


def spectral_parameters(conv: SpectralConv2d | nn.Conv2d) -> tuple[Tensor, Tensor]:
    """Effective weight and bias (zeros where there is none) of a spectral convolution, or of one that was folded already."""
    weight = conv.weight() if isinstance(conv, SpectralConv2d) else conv.weight
    weight = weight.detach().float()
    bias = torch.zeros(weight.shape[0]) if conv.bias is None else conv.bias.detach().float()
    return weight, bias


def folded_conv2d(conv: nn.Conv2d, norm: nn.BatchNorm2d | None = None) -> nn.Conv2d:
    """A new convolution with the norm folded in."""
    weight, bias = folded_parameters(conv, norm)
    made = nn.Conv2d(weight.shape[1], weight.shape[0], weight.shape[2], padding=weight.shape[2] // 2)
    return _with_parameters(made, weight, bias)


def folded_conv3d(conv: nn.Conv3d, norm: nn.BatchNorm3d | None = None) -> nn.Conv3d:
    """A new convolution with the norm folded in."""
    weight, bias = folded_parameters(conv, norm)
    made = nn.Conv3d(weight.shape[1], weight.shape[0], weight.shape[2], padding=weight.shape[2] // 2)
    return _with_parameters(made, weight, bias)


def _with_parameters(made: ConvType, weight: Tensor, bias: Tensor) -> ConvType:
    made.weight = nn.Parameter(weight, requires_grad=False)
    made.bias = nn.Parameter(bias, requires_grad=False)
    return made.eval()
