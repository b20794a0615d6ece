"""A module under CUDA graphs as a runtime: the `compiled` way of running a network, and engines with the torch around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from engines.runtimes.cuda_graphs import BUCKETS, BucketedGraph


class GraphRuntime:
    """Captured per batch size. Thread-safe.

    Args:
        module: Made for capture: it reads nothing back. Switched to eval mode, its gradients off, moved to `device`.
        example: Batch size -> inputs of that size.
        device: Where it runs; on the CPU the module runs plainly, with the same padding.
        buckets: Batch sizes that are captured, each at its first use unless `prepare` is called.
        name: Name of the way it runs.
    """

    def __init__(
        self,
        module: nn.Module,
        example: Callable[[int], tuple[Tensor, ...]],
        device: torch.device | str,
        buckets: Sequence[int] = BUCKETS,
        name: str = "compiled",
    ) -> None:
        self._name = name
        module = module.eval().requires_grad_(False).to(device)
        self._graph = BucketedGraph(module, example, buckets, device)

    @property
    def name(self) -> str:
        """What it was made with."""
        return self._name

    @property
    def device(self) -> torch.device:
        """Where the module lies."""
        return self._graph.device

    def prepare(self) -> None:
        """Capture every batch size now."""
        self._graph.prepare()

    def run(self, *inputs: Tensor) -> Tensor:
        """Run; the output is the caller's own."""
        output = self._graph(*inputs)
        assert isinstance(output, Tensor)  # noqa: S101 - a runtime's module has one output
        return output
