"""Networks as engines want them: plain tensors in, one tensor out where possible, every batch axis in its place."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engines.networks.attention import Rotary
from engines.networks.ditto.motion_extractor import MotionInfo
from engines.networks.lmdm import ConditionCache, Lmdm
from engines.networks.rife.blocks import FLOW_CHANNELS, IFBlock
from kernels.errors import ShapeError
from kernels.rife.flow_refine import local_mean

MOTION_WIDTHS = (66, 66, 66, 3, 63, 1, 63)
"""Columns of a packed `MotionInfo`: pitch, yaw, roll, t, exp, scale, kp."""


class LmdmStep(nn.Module):
    """One guided denoising step, both guidance branches in one batch.

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


class RifeBlockStep(nn.Module):
    """One refinement block of IFNet without its warps: the flow's own arithmetic in float32, the convolutions in the module's type.

    Args:
        block: A block.
        scale: It works at 1 / scale.
        first: The first block gets no flow.
    """

    def __init__(self, block: IFBlock, scale: float, *, first: bool) -> None:
        super().__init__()
        self.block = block
        self.scale = float(scale)
        self.first = first

    def forward(self, x: Tensor, flow: Tensor | None = None) -> Tensor:
        """Refine.

        Args:
            x: (B, C, H, W), in the module's type: the warped pictures, encodings, time, logit and features.
            flow: float32 (B, 4, H, W) in pixels; not for the first block.

        Returns:
            float32 (B, 5 + carried, H, W): change of flow in pixels, logit, features.
        """
        small = self._resize(x, 1.0 / self.scale)
        if flow is not None and not self.first:
            small = torch.cat([small, (self._resize(flow, 1.0 / self.scale) / self.scale).to(x.dtype)], dim=1)
        out = self.block.lastconv(self.block.convblock(self.block.conv0(small)))
        wide = self._resize(local_mean(out.float(), self.block.window), self.scale)
        last = FLOW_CHANNELS + 1 + self.block.carried
        return torch.cat([wide[:, :FLOW_CHANNELS] * self.scale, wide[:, FLOW_CHANNELS:last]], dim=1)

    @staticmethod
    def _resize(x: Tensor, factor: float) -> Tensor:
        if factor == 1.0:
            return x
        return F.interpolate(x, scale_factor=factor, mode="bilinear", align_corners=False)


def in_type(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """A copy with floats in another type; rotation frequencies stay float32 (an angle in float16 is off by 0.04 at position 80)."""
    made = copy.deepcopy(module).eval().requires_grad_(False)
    kept = [(part, part.freqs.detach().clone()) for part in made.modules() if isinstance(part, Rotary)]
    made = made.to(dtype)
    for part, freqs in kept:
        part.freqs = freqs
    return made
