"""What the pipeline wants of a network that makes pictures between pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch


class FrameInterpolator(Protocol):
    """`engines.rife.interpolator.Interpolator` is one. Nothing couples the pairs of a call."""

    def encode(self, frames: torch.Tensor) -> Sequence[Any]:
        """Read pictures, uint8 RGB (n, h, w, 3), once for all pairs that they are part of; n results for `between`."""
        ...

    def between(self, before: Sequence[Any], after: Sequence[Any], timesteps: Sequence[float]) -> torch.Tensor:
        """Make one picture per pair, uint8 RGB (n, h, w, 3).

        Args:
            before: n earlier pictures, encoded.
            after: n later ones.
            timesteps: n times, 0..1, how far from the former to the latter.
        """
        ...
