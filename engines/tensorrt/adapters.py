"""The denoising step's engine in the place of the network it replaces, so that the sampling loop stays as it is."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from engines.networks.lmdm import ConditionCache, Lmdm
from engines.runtimes.protocol import Runtime
from engines.tensorrt.modules import step_inputs
from kernels.errors import InvalidInputError


class StepRuntimeLmdm(nn.Module):
    """`Lmdm` whose denoising step is a runtime (`ditto/lmdm_step`); the condition's share stays in torch.

    It has what `engines.ditto.motion_sampler.MotionSampler` asks of its network.

    Args:
        lmdm: Guided; encodes the condition.
        step: Runs `engines.tensorrt.modules.LmdmStep`.
        dtype: Type that the step takes the condition's share in; converted once per window.

    Raises:
        InvalidInputError: A network without guidance: the step has both branches.
    """

    def __init__(self, lmdm: Lmdm, step: Runtime, dtype: torch.dtype = torch.float16) -> None:
        super().__init__()
        if lmdm.guidance_weight == 1.0:
            raise InvalidInputError("guidance_weight", "1.0", "any other: the engine computes both branches")
        self.lmdm = lmdm
        self._step = step
        self._dtype = dtype

    @property
    def seq_frames(self) -> int:
        """Frames of a window."""
        return self.lmdm.seq_frames

    @property
    def motion_dim(self) -> int:
        """Width of a motion vector."""
        return self.lmdm.motion_dim

    def encode_condition(self, cond_frame: Tensor, cond: Tensor, timesteps: Tensor) -> ConditionCache:
        """As `Lmdm.encode_condition`."""
        cache = self.lmdm.encode_condition(cond_frame, cond, timesteps, guided=True)
        shares = {name: getattr(cache, name).to(self._dtype) for name in ("frame_bias", "film", "keys", "values")}
        return replace(cache, **shares)

    def denoise(self, x: Tensor, step_index: int, cache: ConditionCache) -> Tensor:
        """As `Lmdm.denoise`, by the engine."""
        return self._step.run(x, *step_inputs(cache, step_index))
