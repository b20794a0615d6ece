"""Keypoints -> face crops: warp network and decoder as one module with an 8-bit picture at the end."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kernels.errors import ShapeError

CROP_SIZE = 512


class FaceSynthesis(nn.Module):
    """Draws faces. On CUDA in fp16 by autocast, which keeps the grid samples in fp32; float32 on the CPU.

    Args:
        warp: The warp network.
        decoder: The decoder.
    """

    def __init__(self, warp: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.warp = warp
        self.decoder = decoder

    def forward(self, volume: Tensor, kp_source: Tensor, kp_driving: Tensor) -> Tensor:
        """Draw.

        Args:
            volume: (B, 32, 16, 64, 64), or (1, ...) for one face in B poses; any float type.
            kp_source: float32 (B, 21, 3).
            kp_driving: float32 (B, 21, 3).

        Returns:
            uint8 (B, 512, 512, 3), RGB, rounded.

        Raises:
            ShapeError: The three do not fit together.
        """
        batch = len(kp_driving)
        if volume.dim() != 5 or volume.shape[0] not in (1, batch) or kp_source.shape != kp_driving.shape:
            got = f"{tuple(volume.shape)}, {tuple(kp_source.shape)}, {tuple(kp_driving.shape)}"
            raise ShapeError("volume, kp_source, kp_driving", got, "(B or 1, 32, 16, 64, 64), (B, 21, 3), (B, 21, 3)")
        on_gpu = volume.device.type == "cuda"
        with torch.autocast(volume.device.type, dtype=torch.float16, enabled=on_gpu):
            volumes = volume.float().expand(batch, -1, -1, -1, -1)
            picture = self.decoder(self.warp(volumes, kp_source, kp_driving))
        return to_pixels(picture)


def to_pixels(picture: Tensor) -> Tensor:
    """(B, 3, H, W) in 0..1 -> uint8 (B, H, W, 3), rounded."""
    pixels = torch.floor(picture.float() * 255.0 + 0.5).clamp_(0.0, 255.0).to(torch.uint8)
    return pixels.permute(0, 2, 3, 1).contiguous()
