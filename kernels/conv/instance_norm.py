"""Instance norm of a flat picture stack (`kernels.conv.flat_maps`): its statistics, and a stack together with them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.conv.flat_maps import FlatShape, from_flat
from kernels.norms import EPS


@dataclass(frozen=True)
class Statistics:
    """What instance norm subtracts and multiplies by.

    Attributes:
        mean: float32 (batch, channels).
        rstd: float32 (batch, channels), 1 / sqrt(variance + 1e-5), the variance over all places (biased).
    """

    mean: Tensor
    rstd: Tensor


@dataclass(frozen=True)
class Normed:
    """A picture stack under instance norm.

    Attributes:
        flat: (rows, channels), of the resolution of the modulated result divided by `scale`.
        shape: Its extent.
        statistics: Its mean and deviation; the same for its nearest-neighbour enlargement.
        scale: How often each place is repeated in height and width.
    """

    flat: Tensor
    shape: FlatShape
    statistics: Statistics
    scale: int = 1


def statistics_torch(flat: Tensor, shape: FlatShape) -> Statistics:
    """Statistics of a flat stack."""
    variance, mean = torch.var_mean(from_flat(flat, shape).float(), dim=(1, 2), correction=0)
    return Statistics(mean, torch.rsqrt(variance + EPS))
