"""What networks that are written anew for speed share: weights as fixed copies, and the error where one cannot be rewritten."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kernels.errors import InvalidInputError


class UnsupportedNetworkError(InvalidInputError):
    """This network cannot be rewritten; run it as it is."""

    code = "unsupported_network"


def frozen(module: nn.Module, name: str, value: Tensor, dtype: torch.dtype) -> None:
    """Register a copy of a weight as a buffer that is not saved."""
    module.register_buffer(name, value.detach().to(dtype, copy=True).contiguous(), persistent=False)
