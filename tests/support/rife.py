"""A network whose answers are known: the weighted mean of both pictures, rounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch


@dataclass
class MeanInterpolator:
    """Counts what it is asked for.

    Attributes:
        encoded: Pictures encoded so far.
        calls: Timesteps of every call.
    """

    name: str = "mean"
    encoded: int = 0
    calls: list[list[float]] = field(default_factory=list)

    def encode(self, frames: torch.Tensor) -> list[torch.Tensor]:
        self.encoded += len(frames)
        return list(frames.float())

    def between(
        self, before: Sequence[torch.Tensor], after: Sequence[torch.Tensor], timesteps: Sequence[float]
    ) -> torch.Tensor:
        self.calls.append(list(timesteps))
        mixed = [a * (1 - t) + b * t for a, b, t in zip(before, after, timesteps, strict=True)]
        return torch.stack(mixed).round().to(torch.uint8)
