"""Stitching network S: moves the driving keypoints so that neck and shoulders stay with the picture (ditto.md section 2.5)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

KEYPOINTS = 21


class StitchNetwork(nn.Module):
    """S."""

    def __init__(self) -> None:
        super().__init__()
        out_features = 3 * KEYPOINTS + 2
        self.mlp = nn.Sequential(
            nn.Linear(2 * 3 * KEYPOINTS, 128),
            nn.ReLU(),
            nn.Linear(128, 128),
            nn.ReLU(),
            nn.Linear(128, 64),
            nn.ReLU(),
            nn.Linear(64, out_features),
        )

    def forward(self, kp_source: Tensor, kp_driving: Tensor) -> Tensor:
        """Stitch.

        Args:
            kp_source: (B, 21, 3).
            kp_driving: (B, 21, 3).

        Returns:
            (B, 21, 3): the driving keypoints, each with its own offset, all with one shift in x and y.
        """
        delta = self.mlp(torch.cat([kp_source.flatten(1), kp_driving.flatten(1)], dim=1))
        offsets = delta[:, : 3 * KEYPOINTS].unflatten(1, (KEYPOINTS, 3))
        shift = torch.nn.functional.pad(delta[:, 3 * KEYPOINTS :], (0, 1)).unsqueeze(1)
        stitched: Tensor = kp_driving + offsets + shift
        return stitched
