"""The fast renderer as a runtime: kernels compiled together, one CUDA graph per batch bucket."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engines.ditto.fast.dense_motion import SourceTensors
from engines.ditto.fast.render import FastRender
from engines.runtimes.compiled import prepare_compiled
from engines.runtimes.cuda_graphs import BUCKETS, BucketedGraph
from kernels.sampling.dense_motion import FEATURES

VOLUME = (16, 64, 64, 32)


class FastRenderRuntime:
    """Runs a `FastRender`, in CUDA graphs on a GPU and plainly on the CPU.

    Args:
        module: The renderer; moved to `device`.
        device: Torch device or its name.
        buckets: Batch sizes that are captured.
    """

    def __init__(
        self, module: FastRender, device: torch.device | str = "cpu", buckets: Sequence[int] = BUCKETS
    ) -> None:
        self._device = torch.device(device)
        self._module = module.requires_grad_(False).to(self._device)
        self._graph = BucketedGraph(self._module, self._example, buckets, self._device)

    @property
    def name(self) -> str:
        """`compiled`."""
        return "compiled"

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self._device

    def source(self, volume: Tensor) -> SourceTensors:
        """Source-only tensors of (n, 32, 16, 64, 64), on the device; once per avatar."""
        with torch.inference_mode():
            return self._module.source(volume.to(self._device))

    def prepare(self) -> None:
        """Compile and capture everything now, so that no request waits for it.

        Raises:
            KernelsNotCompiledError: This GPU or this machine's compiler does not take them.
        """
        prepare_compiled(self._graph, lambda size: self._module(*self._example(size)), "renderer")

    def run(self, *inputs: Tensor) -> Tensor:
        """Draw from feature volumes (n or 1, 32, 16, 64, 64) and keypoints; see `engines.ditto.face_synthesis.FaceSynthesis`."""
        volume, kp_source, kp_driving = inputs
        return self.draw(self.source(volume), kp_source, kp_driving)

    def draw(self, source: tuple[Tensor, ...], kp_source: Tensor, kp_driving: Tensor) -> Tensor:
        """Draw, with the source-only work done.

        The batch is cut into buckets without padding: time goes with the frames, so five are four and one, not eight.

        Args:
            source: `source`'s, n pictures, or one for n poses.
            kp_source: float32 (n, 21, 3), or (1, 21, 3).
            kp_driving: float32 (n, 21, 3).

        Returns:
            uint8 (n, 512, 512, 3), RGB, on the device.
        """
        inputs, count = (*source, kp_source, kp_driving), len(kp_driving)
        parts: list[Tensor] = []
        start = 0
        while start < count:
            size = max((bucket for bucket in self._graph.buckets if bucket <= count - start), default=count - start)
            part = [t if t.shape[0] == 1 else t[start : start + size] for t in inputs]
            parts.append(self._draw(part, size))
            start += size
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _draw(self, inputs: list[Tensor], count: int) -> Tensor:
        if self._device.type == "cuda":
            crops = self._graph(*inputs)
            assert isinstance(crops, Tensor)  # noqa: S101 - one output
            return crops
        with torch.inference_mode():
            drawn: Tensor = self._module(*(t.expand(count, *t.shape[1:]).contiguous() for t in inputs))
        return drawn

    def _example(self, size: int) -> tuple[Tensor, ...]:
        """Ordinary values: a capture may choose algorithms by running them."""
        generator = torch.Generator().manual_seed(size)
        dtype = self._module.dense_motion.dtype
        volume = torch.randn(1, *VOLUME, generator=generator).expand(size, *VOLUME)
        compressed = torch.rand(1, *VOLUME[:3], FEATURES, generator=generator).expand(size, *VOLUME[:3], FEATURES)
        source = torch.rand(size, 21, 3, generator=generator) * 1.4 - 0.7
        driving = source + 0.06 * torch.randn(size, 21, 3, generator=generator)
        parts = (volume.to(dtype), compressed.to(dtype), source, driving)
        return tuple(part.to(self._device).contiguous() for part in parts)
