"""Composite and splice as one captured CUDA graph that any number of sessions share.

The graph holds one kernel: crop slots -> blend -> NV12 -> the canvases that the table names (`kernels.nv12.composite_device`). Its
pointers never change: crops go into the slots, the sessions' addresses into the table. So sessions come and go without a new
capture.

Replay safety: a caller of `run` holds the lock from filling the slots until the launch is queued. A run from another stream than
the one before waits, on the GPU, for everything queued there; a session's canvas is written only by runs that name it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import torch

from kernels.errors import InvalidInputError
from kernels.nv12.colour import check_chroma, colour_matrix
from kernels.nv12.composite import check_crops
from kernels.nv12.composite_device import ROW, CompositeTarget
from kernels.nv12.composite_plan import CROP_SIZE


class CompositeGraph:
    """The tail for up to `slots` pictures per launch.

    Args:
        slots: Pictures per replay; fewer are fine, the rest draws nothing.
        max_width: Widest rectangle it will meet, pixels.
        max_height: Highest.
        device: A CUDA device.
        colour: `bt709` or `bt601`, the same for every session of this graph.
        chroma: `mean` or `top_left`.

    Raises:
        InvalidInputError: A device without CUDA, a size below 1, an unknown colour or chroma rule.
    """

    def __init__(
        self,
        slots: int,
        max_width: int,
        max_height: int,
        *,
        device: torch.device | str = "cuda",
        colour: str = "bt709",
        chroma: str = "mean",
    ) -> None:
        wanted = torch.device(device)
        if wanted.type != "cuda":
            raise InvalidInputError("device", str(device), "a CUDA device")
        self._device = wanted if wanted.index is not None else torch.device("cuda", torch.cuda.current_device())
        if min(slots, max_width, max_height) < 1:
            raise InvalidInputError("slots, max_width, max_height", f"{slots}, {max_width}, {max_height}", "1 or more")
        self._matrix, self._chroma = colour_matrix(colour), check_chroma(chroma)
        self._largest = (max_width + max_width % 2, max_height + max_height % 2)
        self.crops = torch.zeros((slots, CROP_SIZE, CROP_SIZE, 3), dtype=torch.uint8, device=self._device)
        """The slots; a renderer that holds `lock` may write here itself and pass `crops[:n]` to `run`."""
        self.lock = threading.RLock()
        self._addresses = torch.zeros((slots, ROW), dtype=torch.int64, device=self._device)
        self._affine = torch.zeros((slots, ROW), dtype=torch.float32, device=self._device)
        self._in_table: tuple[CompositeTarget, ...] = ()
        self._graph = self._capture()
        self._slot_address = self.crops.data_ptr()
        self._last_stream = torch.cuda.current_stream(self._device)

    @property
    def slots(self) -> int:
        """Pictures per replay."""
        return len(self.crops)

    def run(self, crops: torch.Tensor, targets: Sequence[CompositeTarget]) -> None:
        """Draw one picture into each target's canvas, on the current stream. Returns once the work is queued.

        Args:
            crops: uint8 (n, 512, 512, 3), RGB, on the graph's device; n <= `slots`. No copy is made of `self.crops[:n]` itself.
            targets: n of them, each with a canvas of its own.

        Raises:
            ShapeError: No batch of crops.
            InvalidInputError: Counts that do not fit, another device, a rectangle larger than the graph's, another colour standard,
                or one canvas twice.
        """
        n = len(targets)
        if crops.shape[1:] != self.crops.shape[1:] or crops.dtype != torch.uint8:
            check_crops(tuple(crops.shape), str(crops.dtype).removeprefix("torch."))
        if crops.device != self._device or not crops.shape[0] == n <= self.slots:
            raise InvalidInputError(
                "crops, targets",
                f"{len(crops)} on {crops.device} for {n} targets",
                f"as many crops as targets, at most {self.slots}, on {self._device}",
            )
        with self.lock:
            stream = torch.cuda.current_stream(self._device)
            moved = stream.cuda_stream != self._last_stream.cuda_stream
            if moved:
                stream.wait_stream(self._last_stream)
                self._last_stream = stream
            if moved or not self._holds(targets):
                self._fill_table(tuple(targets), stream)
            if n and crops.data_ptr() != self._slot_address:
                self.crops[:n].copy_(crops)
            self._graph.replay()

    def replay(self) -> None:
        """Launch alone: the last run's targets on its stream, the crops as they lie in the slots. The caller holds `lock`."""
        self._graph.replay()

    def _holds(self, targets: Sequence[CompositeTarget]) -> bool:
        """Whether the table is these targets', in this order."""
        held = self._in_table
        return len(held) == len(targets) and all(a is b for a, b in zip(held, targets, strict=True))

    def _fill_table(self, targets: tuple[CompositeTarget, ...], stream: torch.cuda.Stream) -> None:
        for target in targets:
            self._check(target)
        if len({target.canvas.data_ptr() for target in targets}) < len(targets):
            raise InvalidInputError("targets", "one canvas twice", "a canvas of its own for every picture of a run")
        # emptied first: should the copies below fail, nothing is drawn at all
        self._in_table = ()
        self._addresses.zero_()
        if targets:
            torch.stack([target.plan.affine for target in targets], out=self._affine[: len(targets)])
            torch.stack([target.addresses for target in targets], out=self._addresses[: len(targets)])
        for target in targets:
            # the graph reaches these through addresses alone: keep the allocator from handing them on before it is done
            for tensor in (target.canvas, target.plan.background, target.plan.mask):
                tensor.record_stream(stream)
        self._in_table = targets

    def _check(self, target: CompositeTarget) -> None:
        plan = target.plan.plan
        if plan.width > self._largest[0] or plan.height > self._largest[1]:
            raise InvalidInputError(
                "targets",
                f"a rectangle of {plan.width}x{plan.height}",
                f"at most {self._largest[0]}x{self._largest[1]}",
            )
        if (plan.colour.name, plan.colour.full_range, plan.chroma) != (self._matrix.name, False, self._chroma):
            raise InvalidInputError(
                "targets", f"{plan.colour.name}, {plan.chroma}", f"{self._matrix.name}, {self._chroma}, as the graph"
            )
        if target.canvas.device != self.crops.device:
            raise InvalidInputError("targets", f"a canvas on {target.canvas.device}", str(self.crops.device))

    def _capture(self) -> torch.cuda.CUDAGraph:
        from kernels.nv12.composite_triton import composite_into  # here, so that Triton is loaded on a GPU only

        def launch() -> None:
            composite_into(self.crops, self._addresses, self._affine, self._largest, self._matrix, self._chroma)

        with torch.cuda.device(self._device):
            side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own, without types
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                launch()  # compiles; the empty table draws nothing
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                launch()
        return graph
