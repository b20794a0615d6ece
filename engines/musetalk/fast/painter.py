"""Painter and decoder, fast: what `engines.musetalk.painter.Painter` does."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engines.musetalk.fast.taesd import FastTaesd
from engines.musetalk.fast.unet import FastUnet
from engines.musetalk.fast.vae import FastVae
from engines.musetalk.painter import Painter


class FastPainter(nn.Module):
    """The networks.

    Args:
        painter: Float32, on the CPU; its weights are copied.
        dtype: float16 on a GPU; float32 is exact and for tests.

    Raises:
        UnsupportedNetworkError: Networks with parts that these do not know.
    """

    def __init__(self, painter: Painter, dtype: torch.dtype = torch.float16) -> None:
        super().__init__()
        self.unet = FastUnet(painter.unet, dtype)
        self.decoder = (FastVae if painter.is_vae else FastTaesd)(painter.decoder, dtype)
        self.eval()

    def forward(self, latents: Tensor, tokens: Tensor) -> Tensor:
        """Paint; see `Painter.forward`."""
        colours = self.decoder(self.unet(latents, tokens)).float().clamp(0, 1) * 255
        faces: Tensor = colours.round().to(torch.uint8).contiguous()
        return faces
