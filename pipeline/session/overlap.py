"""Drawing without pauses: frames of many orders fill buckets, and the next bucket is queued before the one before is over.

A device that draws one order after the other waits between them for the host, which prepares, copies and answers. Here a thread
keeps up to `depth` buckets in flight: while one is drawn, the host prepares the next and hands out the last. A bucket takes the
frames that have waited longest, of whatever orders they are; an order may span buckets and is answered as soon as its own
frames are there. An order that spoils its bucket is drawn again alone, as is everything that shared the bucket with it, so an
error stays with its order.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from pipeline.stages import RenderRequest
from pipeline.types import CropBatch, Nv12RectBatch

Part = TypeVar("Part")
Part_co = TypeVar("Part_co", covariant=True)
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


@dataclass(frozen=True)
class DrawOrder:
    """What a renderer is asked for.

    Attributes:
        request: The chunk.
        crops_only: Face crops instead of finished rectangles.
    """

    request: RenderRequest
    crops_only: bool = False


@dataclass(frozen=True)
class Span:
    """Frames of one order in a bucket.

    Attributes:
        order: The order that the frames belong to.
        start: Index of the first frame within the order.
        stop: Index after the last frame.
    """

    order: DrawOrder
    start: int
    stop: int

    def __len__(self) -> int:
        """Number of frames."""
        return self.stop - self.start


class Flight(Protocol[Part_co]):
    """A bucket that is being drawn."""

    def wait(self) -> Sequence[Part_co]:
        """Wait until the pictures are on the host and return one part per span."""
        ...


class Draws(Protocol[Part, Result_co]):
    """Does the work that `OverlappedDrawing` orders. All calls come from one thread."""

    def open(self, order: DrawOrder) -> int | None:
        """Return the number of frames in an order; None where it cannot share buckets.

        Raises:
            LiveAnchorError: It cannot be drawn at all.
        """
        ...

    def launch(self, spans: Sequence[Span]) -> Flight[Part]:
        """Queue a bucket on the device and return at once."""
        ...

    def join(self, order: DrawOrder, parts: Sequence[Part]) -> Result_co:
        """The answer of an order whose parts are all there, in order."""
        ...

    def alone(self, order: DrawOrder) -> Result_co:
        """Draw one order and wait for it."""
        ...


@dataclass(eq=False)
class _Job(Generic[Part, Result]):
    order: DrawOrder
    future: Future[Result]
    count: int
    parts: list[Part]
    taken: int = 0
    landed: int = 0


class OverlappedDrawing(Generic[Part, Result]):
    """Draws orders in a thread of its own, in buckets that orders share.

    Args:
        draws: Does the work.
        bucket: Frames per bucket.
        depth: Buckets in flight.
        start: False starts no thread: the caller drives the drawing with `hear` and `turn`, as tests do.
    """

    def __init__(self, draws: Draws[Part, Result], bucket: int = 8, depth: int = 2, *, start: bool = True) -> None:
        self._draws = draws
        self._bucket = bucket
        self._depth = depth
        self._heard: queue.SimpleQueue[tuple[DrawOrder, Future[Result]] | None] = queue.SimpleQueue()
        self._waiting: deque[_Job[Part, Result]] = deque()
        self._flying: deque[tuple[list[tuple[_Job[Part, Result], Span]], Flight[Part]]] = deque()
        self._thread = threading.Thread(target=self._work, name="drawing", daemon=True)
        if start:
            self._thread.start()

    @property
    def frames_in_work(self) -> int:
        """Number of frames that fill the buckets in flight and one more: with so many in work there is no pause."""
        return self._bucket * (self._depth + 1)

    def submit(self, order: DrawOrder) -> Future[Result]:
        """Draw an order; a future that is cancelled before its turn is not drawn."""
        future: Future[Result] = Future()
        self._heard.put((order, future))
        return future

    def close(self) -> None:
        """Draw what was submitted and end the thread."""
        self._heard.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def turn(self) -> bool:
        """Queue one bucket, or hand one out; False where there was nothing to do."""
        if self._waiting and len(self._flying) < self._depth:
            self._launch()
            return True
        if self._flying:
            self._land()
            return True
        return False

    def hear(self, *, wait: bool) -> bool:
        """Take in what was submitted; False after `close`.

        Args:
            wait: Whether to wait for an order where there is none.
        """
        while wait or not self._heard.empty():
            heard = self._heard.get()
            if heard is None:
                return False
            self._open(*heard)
            wait = False
        return True

    def _work(self) -> None:
        more = True
        while more:
            more = self.hear(wait=not self._waiting and not self._flying)
            self.turn()
        while self.turn():
            pass

    def _open(self, order: DrawOrder, future: Future[Result]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            count = self._draws.open(order)
        except Exception as error:  # noqa: BLE001  # the error belongs to the caller of this order; the thread serves the others
            future.set_exception(error)
            return
        job: _Job[Part, Result] = _Job(order, future, count or 0, [])
        if count:
            self._waiting.append(job)
        else:
            self._alone(job)

    def _launch(self) -> None:
        room, bucket = self._bucket, []
        while room and self._waiting:
            job = self._waiting[0]
            stop = min(job.count, job.taken + room)
            bucket.append((job, Span(job.order, job.taken, stop)))
            room -= stop - job.taken
            job.taken = stop
            if stop == job.count:
                self._waiting.popleft()
        try:
            flight = self._draws.launch([span for _, span in bucket])
        except Exception:  # noqa: BLE001  # which order is at fault shows when each is drawn alone
            self._redo(bucket)
        else:
            self._flying.append((bucket, flight))

    def _land(self) -> None:
        bucket, flight = self._flying.popleft()
        try:
            parts = flight.wait()
        except Exception:  # noqa: BLE001  # as in `_launch`
            self._redo(bucket)
            return
        for (job, span), part in zip(bucket, parts, strict=True):
            if job.future.done():
                continue  # another of its buckets failed
            job.parts.append(part)
            job.landed += len(span)
            if job.landed == job.count:
                self._answer(job)

    def _answer(self, job: _Job[Part, Result]) -> None:
        try:
            job.future.set_result(self._draws.join(job.order, job.parts))
        except Exception as error:  # noqa: BLE001  # as in `_open`
            job.future.set_exception(error)

    def _redo(self, bucket: Sequence[tuple[_Job[Part, Result], Span]]) -> None:
        for job, _ in bucket:
            if job in self._waiting:
                self._waiting.remove(job)
            if not job.future.done():
                self._alone(job)

    def _alone(self, job: _Job[Part, Result]) -> None:
        try:
            job.future.set_result(self._draws.alone(job.order))
        except Exception as error:  # noqa: BLE001  # as in `_open`
            job.future.set_exception(error)


@runtime_checkable
class OverlappingRenderer(Protocol):
    """A renderer whose orders can share buckets."""

    def overlapped(self) -> OverlappedDrawing[Any, Nv12RectBatch | CropBatch]:
        """Start a thread that draws this renderer's orders in shared buckets."""
        ...
