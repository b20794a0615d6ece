"""The motion model's ways of running, and the choice among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

import torch

from engines.ditto.fast.sampler import FastSampler
from engines.ditto.motion_sampler import MotionSampler
from engines.networks.lmdm import Lmdm
from engines.runtimes.choice import Inputs, choose_runtime
from engines.runtimes.cuda_graphs import BUCKETS
from engines.runtimes.graph import GraphRuntime
from engines.runtimes.kinds import RuntimeKind
from engines.runtimes.protocol import Runtime
from engines.runtimes.torch import TorchRuntime
from engines.runtimes.verdicts import Verdicts

STAGE: Final = "ditto motion_diffusion"
MAX_ERROR: Final = 1e-2
"""Relative, on a window's motion: the bar for 16 bits."""
DTYPE: Final = torch.float16
"""Measured closer to float32 than bfloat16 (docs/performance.md); a network whose activations overflow it does not verify."""


def motion_runtime(lmdm: Lmdm, steps: int, device: str, wanted: RuntimeKind = "auto") -> Runtime:
    """The runtime of a window of the motion model; inputs and output as `MotionSampler`'s.

    Every batch size is captured now, so that no session waits for one.

    Args:
        lmdm: The network, float32 on the CPU; the eager way keeps and moves it.
        steps: DDIM steps.
        device: Torch device name.
        wanted: See `engines.runtimes.choice`.

    Raises:
        RuntimeRefusedError: The named way cannot be used here.
    """
    others: dict[str, Callable[[], Runtime]] = {}
    if device != "cpu":
        others["compiled"] = lambda: compiled_runtime(lmdm, steps, device)
        others["tensorrt"] = lambda: _tensorrt(lmdm, steps, device)
    probes = [example(lmdm, steps, batch, seed=batch) for batch in (1, BUCKETS[-1])] if others else []
    chosen = choose_runtime(
        wanted,
        lambda: TorchRuntime(MotionSampler(lmdm, steps), device),
        others,
        probes,
        stage=STAGE,
        device=device,
        max_error=MAX_ERROR,
        verdicts=lambda: Verdicts(f"{STAGE}, {steps} steps", [lmdm], device, list(others)),
    )
    if isinstance(chosen, GraphRuntime):
        chosen.prepare()
    return chosen


def example(lmdm: Lmdm, steps: int, batch: int, seed: int = 0) -> Inputs:
    """Random inputs of `MotionSampler` on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    shapes = (
        (batch, lmdm.motion_dim),
        (batch, lmdm.seq_frames, lmdm.cond_dim),
        (batch, steps, lmdm.seq_frames, lmdm.motion_dim),
    )
    return tuple(0.5 * torch.randn(shape, generator=generator) for shape in shapes)


def compiled_runtime(
    lmdm: Lmdm, steps: int, device: str, dtype: torch.dtype = DTYPE, buckets: Sequence[int] = BUCKETS
) -> GraphRuntime:
    """The fused loop, the whole of it one CUDA graph per batch size."""
    fast = FastSampler(lmdm, steps, dtype)
    return GraphRuntime(fast, lambda batch: example(lmdm, steps, batch), device, buckets)


def _tensorrt(lmdm: Lmdm, steps: int, device: str) -> GraphRuntime:
    """The denoising step as an engine, the loop around it in torch, all of it one CUDA graph per batch size."""
    from engines.ditto.engine_modules import LmdmStep, StepRuntimeLmdm
    from engines.ditto.recipes import LMDM_STEP
    from engines.tensorrt.load import EngineSettings, load_or_build

    module = LmdmStep(lmdm).eval().requires_grad_(False)
    step = load_or_build(LMDM_STEP, module, None, EngineSettings(device=device))
    sampler = MotionSampler(cast(Lmdm, StepRuntimeLmdm(lmdm, step)), steps)
    return GraphRuntime(sampler, lambda batch: example(lmdm, steps, batch), device, name="tensorrt")
