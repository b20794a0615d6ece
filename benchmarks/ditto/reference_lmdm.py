"""The baseline of the motion cases: our own LMDM run as the reference runs its (ditto.md sections 2.6 and 12).

Eager, two guidance branches as two passes, and every pass of every step computes the condition encoder, the keys and values of
the cross attention, the time embeddings and the FiLM factors again; the unconditional pass computes the condition's and throws it
away. The batch is as stated (the reference's own is always 1).
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from engines.diffusion import ddim_sample, ddim_steps
from engines.networks.lmdm import Lmdm


class ReferenceSampling(nn.Module):
    """Same inputs and outputs as `engines.ditto.motion_sampler.MotionSampler`.

    Args:
        lmdm: The network; copied.
        steps: DDIM steps.
        dtype: Type of weights and activations; the motion itself stays float32.
    """

    def __init__(self, lmdm: Lmdm, steps: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.lmdm = copy.deepcopy(lmdm).to(dtype)
        self.schedule = ddim_steps(steps)
        self.dtype = dtype
        self.lmdm.time_mlp[0].register_forward_hook(self._lowered)

    def _lowered(self, module: nn.Module, given: Any, made: Tensor) -> Tensor:
        """The sinusoids come in float32 whatever the weights' type."""
        return made.to(self.dtype)

    def forward(self, cond_frame: Tensor, cond: Tensor, noise: Tensor) -> Tensor:
        """Sample float32 (B, 80, 265); see `MotionSampler`."""
        lmdm, drawn = self.lmdm, noise.transpose(0, 1)
        frame, rows = cond_frame.to(self.dtype), cond.to(self.dtype)
        off = torch.zeros(len(cond), dtype=torch.bool, device=cond.device)

        def predict(x: Tensor, index: int) -> Tensor:
            time = torch.full((len(cond),), self.schedule[index].time, device=cond.device)
            outputs = []
            for drop in (off, ~off):
                cache = lmdm.encode_branches(frame, rows, time, drop)
                outputs.append(lmdm.denoise_branches(x.to(self.dtype), 0, cache).float())
            return outputs[1] + lmdm.guidance_weight * (outputs[0] - outputs[1])

        return ddim_sample(predict, drawn[-1], drawn[:-1], self.schedule)
