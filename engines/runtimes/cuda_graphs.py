"""CUDA graphs per batch size: launches of a whole network become one, whatever number of items is asked for.

A function of tensors with a common leading batch is captured once per *bucket* (a batch size). A call takes the smallest bucket
that holds its items, fills that bucket's static inputs, replays, and copies the outputs out; more items than the largest bucket
run as mini-batches. Places above the number of items keep earlier inputs: items must not depend on each other.

On the CPU nothing is captured: the same buffers, padding and mini-batches run the plain function.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor

from kernels.errors import InvalidInputError, ShapeError

BUCKETS: Final = (1, 2, 4, 8, 16)
_WARM_UPS: Final = 3
"""Runs before the capture, on the capturing stream: libraries choose algorithms, kernels are compiled, pools fill."""

Outputs = Tensor | tuple[Tensor, ...]


class BucketedGraph:
    """A function captured per batch size.

    Calls from several threads take turns; on the device each call waits for the one before it, whichever streams they come from.
    The outputs belong to the caller: they are copies, later calls leave them alone.

    Args:
        function: Tensors with the batch as their first axis -> one tensor or several, likewise. It must not read results back on
            the host, and must do the same work at every call.
        example: Batch size -> inputs of that size, of the shapes and types of every later call. The function is captured over
            copies of them, so their values should be ordinary ones.
        buckets: Batch sizes that are captured, ascending.
        device: Where it runs.

    Raises:
        InvalidInputError: Buckets that are empty, not ascending or not positive.
    """

    def __init__(
        self,
        function: Callable[..., Outputs],
        example: Callable[[int], tuple[Tensor, ...]],
        buckets: Sequence[int] = BUCKETS,
        device: torch.device | str = "cpu",
    ) -> None:
        sizes = tuple(buckets)
        if not sizes or sizes[0] < 1 or any(a >= b for a, b in zip(sizes, sizes[1:], strict=False)):
            raise InvalidInputError("buckets", str(sizes), "at least one batch size >= 1, ascending")
        self._function = function
        self._example = example
        self._sizes = sizes
        self._device = torch.device(device)
        self._lock = threading.Lock()
        self._captured: dict[int, _Bucket] = {}
        self._pool: object | None = None
        self._last: torch.cuda.Event | None = None

    @property
    def buckets(self) -> tuple[int, ...]:
        """Batch sizes that are, or will be, captured."""
        return self._sizes

    @property
    def captured(self) -> tuple[int, ...]:
        """Batch sizes that are ready now."""
        return tuple(sorted(self._captured))

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self._device

    def prepare(self) -> None:
        """Capture every bucket now (else each is at its first call), the largest first: its memory serves the smaller ones."""
        with self._lock, torch.inference_mode():
            for size in reversed(self._sizes):
                self._bucket(size)

    def __call__(self, *inputs: Tensor) -> Outputs:
        """Run.

        Args:
            inputs: Like the example's, with n >= 1 items each; an input of one item serves all n. They may lie on any device and
                have any type that converts to the example's.

        Returns:
            What the function returns, n items, on the device.

        Raises:
            ShapeError: Inputs that do not fit the example's, or batches that differ.
        """
        if not inputs:
            raise ShapeError("inputs", "none", "the example's tensors")
        count = max(tensor.shape[0] if tensor.dim() else 0 for tensor in inputs)
        if any(tensor.dim() == 0 or tensor.shape[0] not in (1, count) for tensor in inputs) or count < 1:
            got = ", ".join(str(tuple(tensor.shape)) for tensor in inputs)
            raise ShapeError("inputs", got, "one common batch >= 1 as the first axis, or 1")
        largest = self._sizes[-1]
        parts: list[tuple[Tensor, ...]] = []
        single = False
        with self._lock, torch.inference_mode():
            self._wait_for_last()
            for start in range(0, count, largest):
                stop = min(count, start + largest)
                bucket = self._bucket(next(size for size in self._sizes if size >= stop - start))
                bucket.fill([t if t.shape[0] == 1 else t[start:stop] for t in inputs], stop - start)
                outputs = bucket.run()
                single = isinstance(outputs, Tensor)
                listed = (outputs,) if isinstance(outputs, Tensor) else outputs
                parts.append(tuple(tensor[: stop - start].clone() for tensor in listed))
            self._mark_last()
        whole = parts[0] if len(parts) == 1 else tuple(torch.cat(pieces) for pieces in zip(*parts, strict=True))
        return whole[0] if single else whole

    def _bucket(self, size: int) -> _Bucket:
        found = self._captured.get(size)
        if found is None:
            inputs = tuple(tensor.to(self._device, copy=True) for tensor in self._example(size))
            if any(tensor.dim() == 0 or tensor.shape[0] != size for tensor in inputs):
                got = ", ".join(str(tuple(tensor.shape)) for tensor in inputs)
                raise ShapeError("example", got, f"{size} items as the first axis of every input")
            found = _Bucket(self._function, inputs)
            if self._device.type == "cuda":
                with torch.cuda.device(self._device):
                    self._pool = self._pool or torch.cuda.graph_pool_handle()
                    found.capture(self._pool)
            self._captured[size] = found
        return found

    def _wait_for_last(self) -> None:
        """Static buffers are shared between callers: their streams must not overtake each other."""
        if self._last is not None:
            torch.cuda.current_stream(self._device).wait_event(self._last)

    def _mark_last(self) -> None:
        if self._device.type == "cuda":
            self._last = torch.cuda.current_stream(self._device).record_event()


class _Bucket:
    """Static inputs, and the graph over them where there is one."""

    def __init__(self, function: Callable[..., Outputs], inputs: tuple[Tensor, ...]) -> None:
        self._function = function
        self._inputs = inputs
        self._graph: torch.cuda.CUDAGraph | None = None
        self._outputs: Outputs = ()

    def fill(self, inputs: Sequence[Tensor], count: int) -> None:
        """Copy `count` items in."""
        if len(inputs) != len(self._inputs):
            raise ShapeError("inputs", f"{len(inputs)} tensors", f"{len(self._inputs)} tensors")
        for given, static in zip(inputs, self._inputs, strict=True):
            if given.shape[1:] != static.shape[1:]:
                raise ShapeError("inputs", str(tuple(given.shape)), f"(n, {', '.join(map(str, static.shape[1:]))})")
        for given, static in zip(inputs, self._inputs, strict=True):
            static[:count].copy_(given.expand(count, *given.shape[1:]), non_blocking=True)

    def capture(self, pool: object) -> None:
        """Warm up on a side stream and capture there; other threads may go on using the device."""
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):
                self._function(*self._inputs)
        side.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, stream=side, capture_error_mode="thread_local"):  # type: ignore[arg-type]  # torch's own alias for the pool
            self._outputs = self._function(*self._inputs)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = graph

    def run(self) -> Outputs:
        """Outputs for the inputs that are filled in; valid until the next run of any bucket."""
        if self._graph is None:
            return self._function(*self._inputs)
        self._graph.replay()
        return self._outputs
