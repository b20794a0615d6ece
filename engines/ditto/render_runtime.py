"""The renderer's ways of running, and the choice among them.

All take what `FaceSynthesis` takes: feature volumes, source and driving keypoints -> crops. A way that has work to do on the source
alone offers it as `source`, so that the stage does it once per avatar (`SourceRuntime`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn

from engines.ditto.face_synthesis import FaceSynthesis, to_pixels
from engines.networks.ditto.convolutions import fold_spectral
from engines.networks.ditto.decoder import SpadeDecoder
from engines.networks.ditto.warp_network import WarpNetwork
from engines.runtimes.choice import Inputs, choose_runtime
from engines.runtimes.graph import GraphRuntime
from engines.runtimes.kinds import RuntimeKind
from engines.runtimes.protocol import Runtime
from engines.runtimes.torch import TorchRuntime
from engines.runtimes.verdicts import Verdicts

STAGE: Final = "ditto renderer"
MAX_ERROR: Final = 2e-2
"""Relative, on 8-bit pictures, against the eager way, which itself runs in fp16 on a GPU."""
BUCKETS: Final = (1, 2, 4, 8)
"""Batch sizes captured: sixteen frames at once are no faster per frame than eight."""


@runtime_checkable
class SourceRuntime(Runtime, Protocol):
    """A runtime that does what depends on the source picture alone once."""

    def source(self, volume: Tensor) -> tuple[Tensor, ...]:
        """Feature volumes (n, 32, 16, 64, 64) -> tensors on the device, n items each."""
        ...

    def draw(self, source: tuple[Tensor, ...], kp_source: Tensor, kp_driving: Tensor) -> Tensor:
        """`run` with that work done; one item serves all poses."""
        ...


def render_runtime(
    warp: nn.Module, decoder: nn.Module, device: str, wanted: RuntimeKind = "auto", *, prepare: bool = True
) -> Runtime:
    """The runtime of the renderer: inputs and output as `FaceSynthesis`'s.

    Args:
        warp: The warp network, float32 on the CPU; the eager way keeps and moves it.
        decoder: The decoder, likewise.
        device: Torch device name.
        wanted: See `engines.runtimes.choice`.
        prepare: Compile kernels and capture every batch size now (about 15 s on a machine that never did), not in a first request.

    Raises:
        RuntimeRefusedError: The named way cannot be used here.
    """
    warp, decoder = cast(WarpNetwork, warp), cast(SpadeDecoder, decoder)
    others: dict[str, Callable[[], Runtime]] = {}
    if device != "cpu" and wanted != "eager":
        others["compiled"] = lambda: compiled_runtime(*_on_cpu(warp, decoder), device, prepare=prepare)
        others["tensorrt"] = lambda: engine_runtime(_tensorrt(*_on_cpu(warp, decoder), device), device, prepare=prepare)
    return choose_runtime(
        wanted,
        lambda: TorchRuntime(_eager(warp, decoder), device),
        others,
        [example(batch, seed=batch) for batch in (1, BUCKETS[-1])] if others else [],
        stage=STAGE,
        device=device,
        max_error=MAX_ERROR,
        verdicts=lambda: Verdicts(STAGE, [warp, decoder], device, list(others)),
    )


def compiled_runtime(
    warp: WarpNetwork,
    decoder: SpadeDecoder,
    device: str,
    buckets: Sequence[int] = BUCKETS,
    dtype: torch.dtype = torch.float16,
    *,
    prepare: bool = True,
) -> Runtime:
    """The reformulated networks over our kernels, one CUDA graph per batch size. The networks given are not changed."""
    from engines.ditto.fast.render import FastRender
    from engines.ditto.fast.runtime import FastRenderRuntime

    runtime = FastRenderRuntime(FastRender(warp, decoder, dtype), device, buckets)
    if prepare:
        runtime.prepare()
    return runtime


def engine_runtime(
    synthesis: TensorRtSynthesis, device: str, buckets: Sequence[int] = BUCKETS, *, prepare: bool = True
) -> GraphRuntime:
    """The engines and the samples between them, one CUDA graph per batch size."""

    def inputs(batch: int) -> Inputs:
        volume, source, driving = example(batch)
        return volume.half().expand(batch, -1, -1, -1, -1), source, driving

    runtime = GraphRuntime(synthesis, inputs, device, buckets, name="tensorrt")
    if prepare:
        runtime.prepare()
    return runtime


def example(batch: int, seed: int = 0) -> Inputs:
    """Make a picture's features and `batch` poses near it, on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    volume = torch.randn(1, 32, 16, 64, 64, generator=generator)
    source = torch.rand(1, 21, 3, generator=generator).expand(batch, -1, -1) * 1.4 - 0.7
    return volume, source, source + 0.06 * torch.randn(batch, 21, 3, generator=generator)


class TensorRtSynthesis(nn.Module):
    """`FaceSynthesis` with the two engines, and the 5-D samples between them.

    Args:
        compress: Source features -> what dense motion samples, float32.
        sparse_motions: Keypoints -> sampling positions of that.
        core: Runs `engines.ditto.dense_motion_core.DenseMotionCore`; returns deformation and occlusion.
        decoder: Runs `engines.ditto.fused_post_warp_decoder.FusedPostWarpDecoder`.
    """

    def __init__(
        self,
        compress: Callable[[Tensor], Tensor],
        sparse_motions: Callable[[Tensor, Tensor], Tensor],
        core: Callable[..., tuple[Tensor, ...]],
        decoder: Callable[..., tuple[Tensor, ...]],
    ) -> None:
        super().__init__()
        self._compress, self._sparse_motions, self._core, self._decoder = compress, sparse_motions, core, decoder

    def forward(self, volume: Tensor, kp_source: Tensor, kp_driving: Tensor) -> Tensor:
        """Implement `FaceSynthesis.forward`."""
        from kernels.sampling.grid_sample_3d import grid_sample_3d

        batch = len(kp_driving)
        volumes = volume.expand(batch, -1, -1, -1, -1)
        compressed = self._compress(volume.float()).expand(batch, -1, -1, -1, -1).half()
        deformed = grid_sample_3d(compressed.contiguous(), self._sparse_motions(kp_source, kp_driving))
        deformation, occlusion = self._core(deformed.reshape(batch, 88, 16, 64, 64), kp_source, kp_driving)
        warped = grid_sample_3d(volumes.half().contiguous(), deformation.float())
        return to_pixels(self._decoder(warped.flatten(1, 2), occlusion.half())[0])


def _eager(warp: WarpNetwork, decoder: SpadeDecoder) -> FaceSynthesis:
    fold_spectral(decoder)
    return FaceSynthesis(warp, decoder)


def _on_cpu(warp: WarpNetwork, decoder: SpadeDecoder) -> tuple[WarpNetwork, SpadeDecoder]:
    """Copies to fold on the CPU; the eager way may have moved the networks."""
    return copy.deepcopy(warp).cpu(), copy.deepcopy(decoder).cpu()


def _tensorrt(warp: WarpNetwork, decoder: SpadeDecoder, device: str) -> TensorRtSynthesis:
    from engines.ditto.dense_motion_core import DenseMotionCore
    from engines.ditto.fused_post_warp_decoder import FusedPostWarpDecoder
    from engines.ditto.recipes import DENSE_MOTION_CORE, POST_WARP_DECODER
    from engines.tensorrt.load import EngineSettings, load_or_build

    settings = EngineSettings(device=device)
    core = DenseMotionCore(warp.dense_motion_network)
    dense = load_or_build(DENSE_MOTION_CORE, core, None, settings)
    fused = load_or_build(POST_WARP_DECODER, FusedPostWarpDecoder(warp, decoder), None, settings)
    on_device = core.to(device)
    return TensorRtSynthesis(on_device.compress, on_device.sparse_motions, dense.run_all, fused.run_all)
