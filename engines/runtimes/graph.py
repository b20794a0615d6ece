"""A module under CUDA graphs as a runtime: the `compiled` way of running a network, and engines with the torch around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from engines.runtimes.compiled import prepare_compiled
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
        self._module, self._example = module.eval().requires_grad_(False).to(device), example
        self._graph = BucketedGraph(self._module, example, buckets, device)

    @property
    def name(self) -> str:
        """What it was made with."""
        return self._name

    @property
    def device(self) -> torch.device:
        """Where the module lies."""
        return self._graph.device

    def prepare(self, stage: str = "") -> None:
        """Capture every batch size now.

        Args:
            stage: Name for the log of a module that launches kernels of ours, which are compiled first, all at once; empty where
                there are none.

        Raises:
            KernelsNotCompiledError: This GPU or this machine's compiler does not take the kernels.
        """
        if stage:
            prepare_compiled(self._graph, self._call, stage)
        else:
            self._graph.prepare()

    def _call(self, size: int) -> None:
        self._module(*(tensor.to(self.device) for tensor in self._example(size)))

    def run(self, *inputs: Tensor) -> Tensor:
        """Run; the output is the caller's own."""
        output = self._graph(*inputs)
        assert isinstance(output, Tensor)  # noqa: S101 - a runtime's module has one output
        return output
