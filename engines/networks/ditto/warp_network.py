"""Warp network W: moves a feature volume from the source to the driving pose (ditto.md section 2.3)."""

from __future__ import annotations

from torch import Tensor, nn

from engines.networks.ditto.convolutions import ConvNormRelu2d
from engines.networks.ditto.dense_motion import DenseMotionNetwork, sample_volume

LEAKY_SLOPE = 0.01


class WarpNetwork(nn.Module):
    """W."""

    def __init__(self) -> None:
        super().__init__()
        self.dense_motion_network = DenseMotionNetwork()
        self.third = ConvNormRelu2d(512, 256, slope=LEAKY_SLOPE)
        self.fourth = nn.Conv2d(256, 256, 1)

    def forward(self, feature_3d: Tensor, kp_source: Tensor, kp_driving: Tensor) -> Tensor:
        """Warp.

        Args:
            feature_3d: (B, 32, 16, 64, 64), from the appearance extractor.
            kp_source: (B, 21, 3).
            kp_driving: (B, 21, 3).

        Returns:
            (B, 256, 64, 64), input of the decoder.
        """
        motion = self.dense_motion_network(feature_3d, kp_source, kp_driving)
        return self.post_warp(sample_volume(feature_3d, motion.deformation), motion.occlusion)

    def post_warp(self, warped: Tensor, occlusion: Tensor) -> Tensor:
        """Warped volume (B, 32, 16, 64, 64) and occlusion (B, 1, 64, 64) -> (B, 256, 64, 64)."""
        out: Tensor = self.fourth(self.third(warped.flatten(1, 2))) * occlusion
        return out
