"""Latents of a face and the tokens of its speech -> the face with its mouth painted anew: one step, every picture on its own."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn

from engines.musetalk.shapes import FACE_SIDE

LATENT_SCALE: Final = 0.18215
"""Of Stable Diffusion's latents; the painter sees and gives scaled ones."""


class Painter(nn.Module):
    """The painter and the decoder behind it. Frames do not see each other, so those of several sessions share a batch.

    Args:
        unet: `UNet2DConditionModel`; it runs at time step 0 always.
        decoder: Latents -> pictures -1..1: TAESD's decoder, which takes scaled latents, or an `AutoencoderKL`, which does not.
    """

    timestep: Tensor

    def __init__(self, unet: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.unet = unet
        self.decoder = decoder
        self.is_vae = hasattr(decoder, "encode")
        self.register_buffer("timestep", torch.zeros(1, dtype=torch.long), persistent=False)

    def forward(self, latents: Tensor, tokens: Tensor) -> Tensor:
        """Paint.

        Args:
            latents: (n, 8, 32, 32), scaled.
            tokens: (n, 50, 384), features with their positions added.

        Returns:
            uint8 (n, 256, 256, 3), RGB.
        """
        unet: Any = self.unet
        dtype = next(self.unet.parameters()).dtype
        painted = unet(latents.to(dtype), self.timestep, tokens.to(dtype), return_dict=False)[0]
        decoder: Any = self.decoder
        if self.is_vae:
            picture = decoder.decode(painted / LATENT_SCALE, return_dict=False)[0]
        else:
            picture = decoder(painted)
        scaled = (picture.float() / 2 + 0.5).clamp(0, 1) * 255
        faces: Tensor = scaled.round().to(torch.uint8).permute(0, 2, 3, 1).contiguous()
        return faces


class LatentReader:
    """A face -> what the painter sees of it, once per avatar.

    Args:
        vae: `AutoencoderKL`.
        device: Torch device.
    """

    def __init__(self, vae: nn.Module, device: str = "cpu") -> None:
        self._vae: Any = vae.to(device)
        self._device = torch.device(device)

    def read(self, face: Tensor) -> Tensor:
        """Latents of faces: the mean of the distribution, so that an avatar comes out the same every time.

        Args:
            face: uint8 (n, 256, 256, 3), RGB.

        Returns:
            float32 (n, 8, 32, 32) on the CPU, scaled: lower half black, then whole.
        """
        whole = face.to(self._device).permute(0, 3, 1, 2).float() / 127.5 - 1.0
        masked = whole.clone()
        masked[:, :, FACE_SIDE // 2 :] = -1.0
        with torch.inference_mode():
            parts = [self._vae.encode(picture).latent_dist.mean * LATENT_SCALE for picture in (masked, whole)]
        return torch.cat(parts, dim=1).float().cpu()
