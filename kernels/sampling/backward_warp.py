"""Backward warp by a pixel flow, RIFE's convention.

`out(x, y) = image(x + flow_x(x, y), y + flow_y(x, y))`, bilinear, clamped at the border, pixel centres at integers
(`align_corners=True`): the normalised grid is linspace(-1, 1) plus flow / ((size - 1) / 2).
An axis of one pixel has that pixel everywhere.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels.errors import ShapeError


def backward_warp(image: torch.Tensor, flow: torch.Tensor) -> torch.Tensor:
    """Sample `image` where the flow points.

    Args:
        image: (B, C, H, W), float; half precision is sampled in float32 and cast back.
        flow: (B, 2, H, W), x then y, in pixels.

    Returns:
        (B, C, H, W), dtype of `image`. The grid is always computed in float32: a half-precision grid misses by a quarter of
        a pixel at a width of 1920.

    Raises:
        ShapeError: The two do not fit.
    """
    batch, _, height, width = image.shape
    if tuple(flow.shape) != (batch, 2, height, width):
        raise ShapeError("flow", str(tuple(flow.shape)), str((batch, 2, height, width)))
    x = torch.linspace(-1.0, 1.0, width, device=flow.device)
    y = torch.linspace(-1.0, 1.0, height, device=flow.device)
    shift = flow.float()
    grid_x = x[None, None, :] + shift[:, 0] / (max(width - 1.0, 1.0) / 2.0)
    grid_y = y[None, :, None] + shift[:, 1] / (max(height - 1.0, 1.0) / 2.0)
    grid = torch.stack([grid_x, grid_y], dim=-1)
    sampled = F.grid_sample(image.float(), grid, mode="bilinear", padding_mode="border", align_corners=True)
    return sampled.to(image.dtype)
