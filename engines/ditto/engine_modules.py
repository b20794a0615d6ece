"""Ditto's networks as TensorRT engines want them, and an engine in the place of the network that it replaces.

Plain tensors go in, one tensor comes out where possible, and every batch axis is in its place.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from engines.networks.ditto.motion_extractor import MotionInfo
from engines.networks.lmdm import ConditionCache, Lmdm
from engines.runtimes.protocol import Runtime
from kernels.errors import InvalidInputError, ShapeError

MOTION_WIDTHS = (66, 66, 66, 3, 63, 1, 63)
"""Columns of a packed `MotionInfo`: pitch, yaw, roll, t, exp, scale, kp."""


class LmdmStep(nn.Module):
    """A guided denoising step, both guidance branches in one batch.

    What `Lmdm.encode_condition` makes comes in as tensors whose axis of length 2 is the branch, the conditional one first, so
    that the batch is one axis everywhere (`step_inputs` makes them, as views).

    Args:
        lmdm: Guided, not changed.
    """

    def __init__(self, lmdm: Lmdm) -> None:
        super().__init__()
        self.lmdm = lmdm

    def forward(self, x: Tensor, frame_bias: Tensor, film: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Predict the clean motion.

        Args:
            x: float32 (B, 80, 265), noisy motion.
            frame_bias: (2, B, 1, 512).
            film: (layers, 3, 2, 2, B, 1, 512): layer, sub-layer, scale or shift, branch.
            keys: (layers, 2, B, heads, 82, 64).
            values: Like `keys`.

        Returns:
            float32 (B, 80, 265), guided.
        """
        cache = ConditionCache(
            frame_bias=frame_bias.flatten(0, 1),
            film=film.flatten(3, 4)[None],
            keys=keys.flatten(1, 2)[None],
            values=values.flatten(1, 2)[None],
            batch=x.shape[0],
        )
        raw = self.lmdm.denoise_branches(x.to(frame_bias.dtype), 0, cache).float()
        conditional, unconditional = torch.unflatten(raw, 0, (2, -1)).unbind(0)
        return torch.add(unconditional, conditional - unconditional, alpha=self.lmdm.guidance_weight)


def step_inputs(cache: ConditionCache, step: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A cache's tensors for one step as `LmdmStep` takes them; views, contiguous.

    Raises:
        ShapeError: The cache holds no unconditional branch.
    """
    branches = cache.frame_bias.shape[0]
    if branches != 2 * cache.batch:
        raise ShapeError("cache", f"{branches} rows for {cache.batch} sessions", "both guidance branches")
    size = (2, cache.batch)
    return (
        torch.unflatten(cache.frame_bias, 0, size),
        torch.unflatten(cache.film[step], 3, size),
        torch.unflatten(cache.keys[step], 1, size),
        torch.unflatten(cache.values[step], 1, size),
    )


class PackedMotionExtractor(nn.Module):
    """The motion extractor with one output: (B, 3, 256, 256) in 0..1 -> (B, 328), see `MOTION_WIDTHS`.

    Args:
        extractor: `build("ditto/motion_extractor")`.
    """

    def __init__(self, extractor: nn.Module) -> None:
        super().__init__()
        self.extractor = extractor

    def forward(self, image: Tensor) -> Tensor:
        """Read a face."""
        return torch.cat(list(self.extractor(image)), dim=-1)


def unpack_motion(packed: Tensor) -> MotionInfo:
    """Columns of a packed result, (B, 328) -> views."""
    return MotionInfo(*torch.split(packed, list(MOTION_WIDTHS), dim=-1))


class StepRuntimeLmdm(nn.Module):
    """`Lmdm` whose denoising step is a runtime; the condition's share stays in torch.

    It has what `engines.ditto.motion_sampler.MotionSampler` asks of its network.

    Args:
        lmdm: Guided; encodes the condition.
        step: Runs `LmdmStep`.
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
