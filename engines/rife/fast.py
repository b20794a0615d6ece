"""The fast way of running an interpolation network on a GPU: folded, half precision, one CUDA graph per size and batch."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from engines.networks.rife.ifnet import IFNet
from engines.rife.folded import FoldedIFNet, fold
from engines.runtimes.cuda_graphs import BucketedGraph

BUCKETS: Final = (1, 2, 4, 8, 16)
SIZES_KEPT: Final = 2
"""Frame sizes whose graphs are kept; a session's crops have one size, and sessions share it."""


class FastEngine:
    """Runs a folded network; see `engines.rife.interpolator.Engine`.

    Convolutions take and give half precision and sum in float32; flow, positions, logits and weights of samples are float32
    throughout.

    Args:
        network: In eval mode.
        device: A GPU; a CPU runs the kernels' references, for tests.
        dtype: Type of convolutions and of encoded frames.
        buckets: Batch sizes that are captured, ascending.

    Raises:
        UnsupportedNetworkError: Ensembles and fractional scales: use the eager engine.
    """

    def __init__(
        self,
        network: IFNet,
        device: torch.device | str,
        dtype: torch.dtype = torch.float16,
        buckets: tuple[int, ...] = BUCKETS,
    ) -> None:
        self._device = torch.device(device)
        self._buckets = buckets
        with torch.inference_mode():
            self.folded: FoldedIFNet = fold(network.float()).to(self._device, dtype)
        self._lock = threading.Lock()
        self._graphs: OrderedDict[tuple[str, int, int], BucketedGraph] = OrderedDict()

    def prepare(self, height: int, width: int) -> None:
        """Compile and capture everything for frames of one size now, so that no request waits for it."""
        if self._device.type == "cuda":
            for graph in (self._encode_graph(height, width), self._between_graph(height, width)):
                graph.prepare()

    def encode(self, frames: Tensor) -> Tensor:
        """Sides (n, H, W, 8): picture, features, zero; channels last, zero-padded."""
        return _one(self._encode_graph(*frames.shape[1:3])(frames))

    def between(self, before: Tensor, after: Tensor, times: Tensor, height: int, width: int) -> Tensor:
        """Make one frame per pair and time, rounded."""
        return _one(self._between_graph(height, width)(before, after, times))

    def _encode_graph(self, height: int, width: int) -> BucketedGraph:
        def example(count: int) -> tuple[Tensor, ...]:
            return (torch.randint(0, 256, (count, height, width, 3), dtype=torch.uint8),)

        return self._graph(("encode", height, width), self.folded.encode, example)

    def _between_graph(self, height: int, width: int) -> BucketedGraph:
        rows, columns = self.folded.padded(height, width)

        def example(count: int) -> tuple[Tensor, ...]:
            side = torch.rand((count, rows, columns, 8), dtype=self.folded.dtype)
            return side, side.flip(0), torch.full((count,), 0.5)

        def work(first: Tensor, second: Tensor, at: Tensor) -> Tensor:
            return self.folded.between(first, second, at, height, width)

        return self._graph(("between", height, width), work, example)

    def _graph(
        self, key: tuple[str, int, int], work: Callable[..., Tensor], example: Callable[[int], tuple[Tensor, ...]]
    ) -> BucketedGraph:
        with self._lock:
            graph = self._graphs.pop(key, None)
            if graph is None:
                self._compile(work, example)
                graph = BucketedGraph(work, example, self._buckets, self._device)
            self._graphs[key] = graph  # the last one used is the last one dropped
            while len(self._graphs) > 2 * SIZES_KEPT:
                self._graphs.popitem(last=False)
        return graph

    def _compile(self, work: Callable[..., Tensor], example: Callable[[int], tuple[Tensor, ...]]) -> None:
        """Have the kernels of all buckets compiled on all cores; one by one, at their first use, they take a minute or two."""
        if self._device.type != "cuda":
            return
        from kernels.triton_launch import compiling_in_parallel

        with torch.inference_mode(), torch.cuda.device(self._device), compiling_in_parallel():
            for count in self._buckets:
                work(*(tensor.to(self._device) for tensor in example(count)))


def _one(made: Tensor | tuple[Tensor, ...]) -> Tensor:
    if not isinstance(made, Tensor):
        raise TypeError("one tensor was expected")
    return made
