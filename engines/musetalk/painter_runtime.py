"""The painter's ways of running, and the choice among them. All take latents and tokens and give faces, as `Painter` does."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor, nn

from engines.musetalk.painter import Painter
from engines.musetalk.shapes import LATENT_CHANNELS, LATENT_SIDE, TOKEN_DIM, TOKENS
from engines.runtimes.choice import Inputs, choose_runtime
from engines.runtimes.graph import GraphRuntime
from engines.runtimes.kinds import RuntimeKind
from engines.runtimes.protocol import Runtime
from engines.runtimes.torch import TorchRuntime
from engines.runtimes.verdicts import Verdicts

STAGE: Final = "painter"
MAX_ERROR: Final = 2e-2
"""Relative, on 8-bit pictures, against the eager way, which itself runs in fp16 on a GPU."""
BUCKETS: Final = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
"""Batch sizes that are captured, up to the largest that is asked for: one that lies between is padded by a third at most."""
VAE_BUCKETS: Final = (1, 2, 4, 8)
"""With the autoencoder's decoder, whose maps take 0.1 GB a face; larger batches run as several."""


def painter_runtime(painter: Painter, device: str, wanted: RuntimeKind = "auto", batch: int = BUCKETS[-1]) -> Runtime:
    """The runtime of the painter.

    Args:
        painter: Float32, on the CPU; on a CPU it is kept.
        device: Torch device name.
        wanted: See `engines.runtimes.choice`.
        batch: Largest batch that will be asked for: ways are compared on it, and no larger one is captured.

    Raises:
        RuntimeRefusedError: The named way cannot be used here.
    """
    others: dict[str, Callable[[], Runtime]] = {}
    sizes = buckets_up_to(batch, is_vae=painter.is_vae)
    if device != "cpu" and wanted != "eager":
        others["compiled"] = lambda: compiled_runtime(painter, device, sizes)
        if not painter.is_vae:
            others["tensorrt"] = lambda: tensorrt_runtime(painter, device, sizes)
    return choose_runtime(
        wanted,
        lambda: eager_runtime(painter, device),
        others,
        [example(count) for count in (1, batch)] if others else [],
        stage=STAGE,
        device=device,
        max_error=MAX_ERROR,
        verdicts=lambda: Verdicts(STAGE, [painter], device, list(others)),
    )


def buckets_up_to(batch: int, *, is_vae: bool = False) -> tuple[int, ...]:
    """Batch sizes to capture where a renderer draws so many faces at once: more would cost start time and memory for nothing."""
    sizes = VAE_BUCKETS if is_vae else BUCKETS
    return tuple(size for size in sizes if size < batch) + tuple(size for size in sizes if size >= batch)[:1]


def eager_runtime(painter: Painter, device: str) -> Runtime:
    """The library's networks as they are; a copy of them in float16, channels last, on a GPU."""
    if device == "cpu":
        return TorchRuntime(painter, device)
    half = copy.deepcopy(painter).half()
    half.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's own overloads lack it
    return TorchRuntime(half, device)


def compiled_runtime(
    painter: Painter,
    device: str,
    buckets: Sequence[int] | None = None,
    dtype: torch.dtype = torch.float16,
    *,
    prepare: bool = True,
) -> GraphRuntime:
    """The networks written anew over our kernels, one CUDA graph per batch size. The painter given is not changed.

    Args:
        painter: Float32, on the CPU.
        device: Torch device name.
        buckets: Batch sizes; None: those that suit its decoder.
        dtype: Type of the products.
        prepare: Compile kernels and capture every batch size now, not in a first request.

    Raises:
        UnsupportedNetworkError: Networks with parts that are not known.
        KernelsNotCompiledError: This GPU or this machine's compiler does not take the kernels.
    """
    from engines.musetalk.fast.painter import FastPainter

    sizes = buckets or (VAE_BUCKETS if painter.is_vae else BUCKETS)
    runtime = GraphRuntime(FastPainter(painter, dtype), example, device, sizes)
    if prepare:
        runtime.prepare(STAGE)
    return runtime


def engine_runtime(painter: TensorRtPainter, device: str, buckets: Sequence[int] = BUCKETS) -> GraphRuntime:
    """The engines, one CUDA graph per batch size, all captured now."""
    runtime = GraphRuntime(painter, example, device, buckets, name="tensorrt")
    runtime.prepare()
    return runtime


class TensorRtPainter(nn.Module):
    """`Painter` with the two engines.

    Args:
        unet: Runs `engines.musetalk.engine_modules.UnetEngine`.
        decoder: Runs `engines.musetalk.engine_modules.DecoderEngine`.
    """

    def __init__(self, unet: Callable[..., tuple[Tensor, ...]], decoder: Callable[..., tuple[Tensor, ...]]) -> None:
        super().__init__()
        self._unet, self._decoder = unet, decoder

    def forward(self, latents: Tensor, tokens: Tensor) -> Tensor:
        """Implement `Painter.forward`."""
        [picture] = self._decoder(*self._unet(latents, tokens))
        faces: Tensor = (picture.float() * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous()
        return faces


def tensorrt_runtime(painter: Painter, device: str, buckets: Sequence[int] = BUCKETS) -> GraphRuntime:
    """Engines of the painter and its small decoder, from the cache or built now; one CUDA graph per batch size.

    Raises:
        TensorRtMissingError: No library that supports this card is installed.
        LiveAnchorError: They cannot be built, or are off.
    """
    from engines.musetalk.engine_modules import DecoderEngine, UnetEngine
    from engines.musetalk.recipes import TAESD_SPEC, UNET_SPEC
    from engines.tensorrt.load import EngineSettings, load_or_build

    settings = EngineSettings(device=device)
    unet = load_or_build(UNET_SPEC, UnetEngine(painter.unet).eval(), None, settings)
    decoder = load_or_build(TAESD_SPEC, DecoderEngine(painter.decoder).eval(), None, settings)
    return engine_runtime(TensorRtPainter(unet.run_all, decoder.run_all), device, buckets)


def example(batch: int) -> Inputs:
    """Ordinary latents and tokens, on the CPU."""
    generator = torch.Generator().manual_seed(batch)
    latents = torch.randn(batch, LATENT_CHANNELS, LATENT_SIDE, LATENT_SIDE, generator=generator)
    return latents, torch.randn(batch, TOKENS, TOKEN_DIM, generator=generator)
