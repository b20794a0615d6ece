"""Blocks of an interpolation network as TensorRT engines want them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engines.networks.rife.blocks import FLOW_CHANNELS, IFBlock
from kernels.rife.flow_refine import local_mean


class RifeBlockStep(nn.Module):
    """A refinement block of IFNet without its warps: the flow's own arithmetic in float32, the convolutions in the module's type.

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
