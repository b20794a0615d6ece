"""The whole renderer, fast: source tensors and keypoints -> pictures."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engines.ditto.fast.decoder import SIZE, FastDecoder
from engines.ditto.fast.dense_motion import FastDenseMotion, SourceTensors
from engines.networks.ditto.decoder import SpadeDecoder
from engines.networks.ditto.warp_network import WarpNetwork
from kernels.conv.flat_maps import FlatShape
from kernels.conv.shuffled_pixels import shuffled_picture, shuffled_pixels


class FastRender(nn.Module):
    """Dense motion, warp and decoder.

    Args:
        warp: The warp network. Not changed.
        decoder: The decoder. Not changed.
        dtype: float16 on a GPU; float32 is exact and for tests.
    """

    def __init__(self, warp: WarpNetwork, decoder: SpadeDecoder, dtype: torch.dtype = torch.float16) -> None:
        super().__init__()
        self.dense_motion = FastDenseMotion(warp.dense_motion_network, dtype)
        self.decoder = FastDecoder(warp, decoder, dtype=dtype)
        self.eval()

    def source(self, volume: Tensor) -> SourceTensors:
        """Prepare a source picture's volume as `FastDenseMotion.source` does."""
        return self.dense_motion.source(volume)

    def forward(self, volume: Tensor, compressed: Tensor, kp_source: Tensor, kp_driving: Tensor) -> Tensor:
        """Draw.

        Args:
            volume: `SourceTensors.volume`, B pictures.
            compressed: `SourceTensors.compressed`, likewise.
            kp_source: float32 (B, 21, 3).
            kp_driving: float32 (B, 21, 3).

        Returns:
            uint8 (B, 512, 512, 3), RGB, rounded.
        """
        return shuffled_pixels(*self._logits(volume, compressed, kp_source, kp_driving))

    def picture(self, volume: Tensor, compressed: Tensor, kp_source: Tensor, kp_driving: Tensor) -> Tensor:
        """The same as float32 (B, 3, 512, 512) in 0..1, not rounded; for measuring."""
        return shuffled_picture(*self._logits(volume, compressed, kp_source, kp_driving))

    def _logits(
        self, volume: Tensor, compressed: Tensor, kp_source: Tensor, kp_driving: Tensor
    ) -> tuple[Tensor, FlatShape]:
        shape = FlatShape(len(kp_driving), SIZE, SIZE)
        warped, occlusion = self.dense_motion(SourceTensors(volume, compressed), kp_source, kp_driving)
        return self.decoder(warped, occlusion, shape), shape.scaled(4)
