"""Extents of the dense motion network, shared by what feeds it (`sparse_motion`) and by what follows it (`mask_motion`)."""

from __future__ import annotations

import torch
from torch import Tensor

KEYPOINTS = 21
VIEWS = KEYPOINTS + 1
FEATURES = 4
CHANNELS = 112
"""4 features of view 0, 4 of view 1, ... (88); heat of view 0, 1, ... (22); two zeros up to a multiple of 16."""
HEAT_FIRST = VIEWS * FEATURES
VARIANCE = 0.01

TAPS = 7
MASK_COLUMNS = TAPS * VIEWS
PRODUCTS = 176
"""154 for the mask, 16 for the occlusion at a depth of 16, zeros up to a multiple of 16."""


def identity(depth: int, height: int, width: int, device: torch.device) -> Tensor:
    """float32 (d, h, w, 3), x y z, each -1..1 inclusive."""
    sizes = (depth, height, width)
    axes = [torch.arange(n, dtype=torch.float32, device=device) * (2.0 / (n - 1)) - 1.0 for n in sizes]
    z, y, x = torch.meshgrid(*axes, indexing="ij")
    return torch.stack([x, y, z], dim=-1)
