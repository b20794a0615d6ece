"""A network in the number type of its engine."""

from __future__ import annotations

import copy

import torch
from torch import nn

from engines.networks.attention import Rotary


def in_type(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """A copy with floats in another type; rotation frequencies stay float32 (an angle in float16 is off by 0.04 at position 80)."""
    made = copy.deepcopy(module).eval().requires_grad_(False)
    kept = [(part, part.freqs.detach().clone()) for part in made.modules() if isinstance(part, Rotary)]
    made = made.to(dtype)
    for part, freqs in kept:
        part.freqs = freqs
    return made
