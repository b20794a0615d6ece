"""The eager torch runtime: works everywhere, is the reference for every other runtime."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class TorchRuntime:
    """Run a module eagerly.

    Args:
        module: The network; switched to eval mode and moved to `device`, its gradients switched off.
        device: Torch device or its name.
    """

    def __init__(self, module: nn.Module, device: torch.device | str = "cpu") -> None:
        self._device = torch.device(device)
        self._module = module.eval().requires_grad_(False).to(self._device)

    @property
    def name(self) -> str:
        """`torch`."""
        return "torch"

    @property
    def device(self) -> torch.device:
        """Where the module lies."""
        return self._device

    def run(self, *inputs: Tensor) -> Tensor:
        """Run the module in inference mode."""
        with torch.inference_mode():
            output: Tensor = self._module(*(tensor.to(self._device, non_blocking=True) for tensor in inputs))
        return output
