"""What every way of running a network offers: eager torch now; CUDA graphs and TensorRT behind the same protocol."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor


@runtime_checkable
class Runtime(Protocol):
    """A network ready to run. Thread-safe for one caller at a time.

    Attributes:
        name: Short name of the way of running, for logs and metrics.
        device: Where inputs are expected and outputs are left.
    """

    @property
    def name(self) -> str:
        """Short name of the way of running."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the network runs."""
        ...

    def run(self, *inputs: Tensor) -> Tensor:
        """Run the network without gradients; inputs may lie on any device, the output lies on `device`."""
        ...
