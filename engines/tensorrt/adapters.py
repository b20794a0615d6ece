"""Engines in the places of the modules they replace, so that sampling loops and networks stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from engines.networks.lmdm import ConditionCache, Lmdm
from engines.networks.rife.ifnet import IFNet
from engines.runtimes.protocol import Runtime
from engines.tensorrt.modules import step_inputs
from kernels.errors import InvalidInputError

LoadBlock = Callable[[int], Runtime]
"""Index of a block -> its runtime."""


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


class RuntimeBlock(nn.Module):
    """An IFNet block that is a runtime (`rife/VERSION/blockN`)."""

    def __init__(self, runtime: Runtime, scale: float, carried: int) -> None:
        super().__init__()
        self._runtime = runtime
        self._scale = scale
        self._carried = carried

    def forward(self, x: Tensor, flow: Tensor | None, scale: float) -> tuple[Tensor, Tensor, Tensor | None]:
        """As `engines.networks.rife.blocks.IFBlock.forward`, at the scale it was built for.

        Raises:
            InvalidInputError: Another scale.
        """
        if scale != self._scale:
            raise InvalidInputError("scale", str(scale), str(self._scale))
        out = self._runtime.run(x) if flow is None else self._runtime.run(x, flow)
        features = out[:, 5:].to(x.dtype) if self._carried else None
        return out[:, :4], out[:, 4:5], features


class RuntimeIFNet(IFNet):
    """An interpolation network whose blocks are runtimes; warps, flow and fusion stay in torch, in float32.

    Args:
        network: What it copies encoder and layout from; without ensemble.
        load_block: Gives the runtime of each block.

    Raises:
        InvalidInputError: An ensemble network: it runs every block on swapped inputs too.
    """

    def __init__(self, network: IFNet, load_block: LoadBlock) -> None:
        if network.ensemble:
            raise InvalidInputError("ensemble", "True", "False for engines")
        super().__init__(network.layout, ensemble=False, scale=network.layout.scales[0] / network.scales[0])
        if network.layout.encoder is not None:
            self.encode.load_state_dict(network.encode.state_dict())
        for index, scale in enumerate(self.scales):
            carried = network.layout.carried
            setattr(self, f"block{index}", RuntimeBlock(load_block(index), scale, carried))
        self.eval().requires_grad_(False)
