"""MuseTalk's networks at their public sizes under the formula, run the reference's way and ours."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any, Final

import torch
from torch import Tensor

from benchmarks.musetalk.checkpoint_folder import filled_library, filled_whisper, make_pale
from engines.musetalk.config_files import TAESD, UNET, VAE, WHISPER
from engines.musetalk.fast.painter import FastPainter
from engines.musetalk.painter import Painter
from engines.musetalk.painter_runtime import buckets_up_to, compiled_runtime
from engines.musetalk.shapes import LATENT_CHANNELS, LATENT_SIDE, TOKEN_DIM, TOKENS
from engines.musetalk.speech import SpeechEncoder
from engines.runtimes.graph import GraphRuntime
from pipeline.musetalk.load import GPU_BATCH

UNET_FLOP: Final = 178e9
TAESD_FLOP: Final = 35e9
VAE_FLOP: Final = 622e9
"""Operations a frame, 2 per multiply-add (facts: counted on the public configurations)."""
SPREAD: Final = 0.25
"""Standard deviation of the colours that are compared: few are cut at 0 or 1."""
FLOP_PER_S: Final = 7.9e14
"""Measured rate of a large 16-bit matrix product on the H200."""


class Networks:
    """Everything that is measured, made when it is first asked for.

    Args:
        device: Torch device name.
    """

    def __init__(self, device: str = "cuda") -> None:
        self.device = device

    @cached_property
    def painter(self) -> Painter:
        """UNet and small decoder, float32 on the device."""
        unet: Any = filled_library("UNet2DConditionModel", UNET)
        taesd: Any = filled_library("AutoencoderTiny", TAESD)
        made = Painter(unet, taesd.decoder).to(self.device)
        make_pale(made, *self.inputs(4, 0), SPREAD)
        return made

    @cached_property
    def quality(self) -> Painter:
        """The same UNet before the autoencoder's decoder, float32 on the device."""
        made = Painter(self.painter.unet, filled_library("AutoencoderKL", VAE)).to(self.device)
        make_pale(made, *self.inputs(1, 0), SPREAD)
        return made

    @cached_property
    def fast(self) -> FastPainter:
        """Ours, without a graph around it; its kernels compiled for the batches that are timed, all at once."""
        from kernels.triton_launch import compiling_in_parallel

        made = FastPainter(self.painter).to(self.device)
        with torch.inference_mode(), compiling_in_parallel():
            for batch in (1, 8, 32):
                made(*self.inputs(batch, 0))
        return made

    @cached_property
    def reference(self) -> Painter:
        """The reference's way: the library's modules, eager, float16."""
        return copy.deepcopy(self.painter).half()

    @cached_property
    def reference_quality(self) -> Painter:
        """Likewise, with the autoencoder."""
        return copy.deepcopy(self.quality).half()

    @cached_property
    def compiled(self) -> GraphRuntime:
        """Ours as the product runs it, every bucket captured that it asks for."""
        return compiled_runtime(self.painter, self.device, buckets_up_to(GPU_BATCH))

    @cached_property
    def compiled_quality(self) -> GraphRuntime:
        """Likewise, with the autoencoder; two sizes."""
        return compiled_runtime(self.quality, self.device, (1, 8))

    @cached_property
    def speech(self) -> SpeechEncoder:
        """Whisper's encoder, float16."""
        return SpeechEncoder(filled_whisper(WHISPER), self.device, half=self.device != "cpu")

    def inputs(self, count: int, seed: int, scale: float = 1.0) -> tuple[Tensor, Tensor]:
        """Latents and tokens on the device."""
        generator = torch.Generator().manual_seed(seed)
        latents = torch.randn(count, LATENT_CHANNELS, LATENT_SIDE, LATENT_SIDE, generator=generator) * scale
        tokens = torch.randn(count, TOKENS, TOKEN_DIM, generator=generator) * scale
        return latents.to(self.device), tokens.to(self.device)
