"""A residual block: two norms with SiLU, two convolutions, and a shortcut.

What is done differently from the library, all of it exact but for rounding:
* The time embedding belongs to step 0 always, so its part is a constant: it joins the first convolution's bias, which the second
  norm adds while it reads.
* The skip that a block of the way up gets is never joined to its map: the norm reads both, the shortcut is two products.
* The last bias, the shortcut's, and a constant of whoever comes next are added in one pass with the residual.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engines.musetalk.fast.maps import convolved, frozen_filter, rows_of
from engines.networks.rewriting import UnsupportedNetworkError, frozen
from kernels.unet.add_residual import add_residual
from kernels.unet.group_norm import group_norm


class FastNorm(nn.Module):
    """A group norm with or without SiLU.

    Args:
        norm: Where the weights come from; they are copied.
        silu: Whether SiLU follows.
        offset: float32 (c,), added to the channels before; None: nothing.
    """

    weight: Tensor
    bias: Tensor
    offset: Tensor | None

    def __init__(self, norm: nn.Module, *, silu: bool, offset: Tensor | None = None) -> None:
        super().__init__()
        if not isinstance(norm, nn.GroupNorm) or norm.weight is None or norm.bias is None:
            raise UnsupportedNetworkError("norm", type(norm).__name__, "GroupNorm with weights")
        self.groups, self.eps, self.silu = norm.num_groups, norm.eps, silu
        frozen(self, "weight", norm.weight, torch.float32)
        frozen(self, "bias", norm.bias, torch.float32)
        if offset is None:
            self.offset = None
        else:
            frozen(self, "offset", offset, torch.float32)

    def forward(self, x: Tensor, skip: Tensor | None = None) -> Tensor:
        """Norm (n, h, w, c) maps, `skip`'s channels behind x's."""
        return group_norm(
            x, self.weight, self.bias, self.groups, self.eps, silu=self.silu, skip=skip, offset=self.offset
        )


class FastResnet(nn.Module):
    """The block.

    Args:
        block: `ResnetBlock2D`; its weights are copied.
        time: (1, d), the time embedding; None where the block has none.
        after: float32 (c,), added to the result for whoever comes next; None: nothing.
        dtype: Type of the products.

    Raises:
        UnsupportedNetworkError: A block with other parts.
    """

    first: Tensor
    second: Tensor
    shortcut: Tensor | None
    ending: Tensor

    def __init__(self, block: nn.Module, time: Tensor | None, after: Tensor | None, dtype: torch.dtype) -> None:
        super().__init__()
        parts: Any = block
        if not isinstance(parts.nonlinearity, nn.SiLU) or parts.upsample is not None or parts.downsample is not None:
            raise UnsupportedNetworkError("block", type(block).__name__, "a plain residual block with SiLU")
        timed = parts.time_emb_proj is not None
        if parts.output_scale_factor != 1.0 or (
            timed and (parts.time_embedding_norm != "default" or parts.skip_time_act)
        ):
            raise UnsupportedNetworkError("block", "scaled, or with another use of time", "an added time embedding")
        frozen_filter(self, "first", parts.conv1, dtype)
        frozen_filter(self, "second", parts.conv2, dtype)
        shift = self.get_buffer("first_bias")
        if time is not None and timed:
            shift = shift + parts.time_emb_proj(F.silu(time))[0].float()
        self.norm1 = FastNorm(parts.norm1, silu=True)
        self.norm2 = FastNorm(parts.norm2, silu=True, offset=shift)
        ending = self.get_buffer("second_bias")
        if parts.conv_shortcut is None:
            self.shortcut = None
        else:
            frozen(self, "shortcut", parts.conv_shortcut.weight[:, :, 0, 0], dtype)
            ending = ending + (0.0 if parts.conv_shortcut.bias is None else parts.conv_shortcut.bias.detach().float())
        ending = ending if after is None else ending + after
        frozen(self, "ending", ending, torch.float32 if self.shortcut is None else dtype)

    def forward(self, x: Tensor, skip: Tensor | None = None) -> Tensor:
        """Map (n, h, w, c) -> (n, h, w, d); `skip` (n, h, w, e) where the block was made for c + e channels."""
        made = convolved(self.norm1(x, skip), self.first)
        made = convolved(self.norm2(made), self.second)
        if self.shortcut is None:
            return add_residual(made, x, self.ending)
        own = x.shape[-1]
        passed = F.linear(rows_of(x), self.shortcut[:, :own], self.ending)
        if skip is not None:
            passed.addmm_(rows_of(skip), self.shortcut[:, own:].t())
        return made.add_(passed.view(made.shape))
