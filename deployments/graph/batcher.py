"""The deadline-ordered batcher: calls of many sessions -> batches of one model. Plain asyncio, no Ray.

The rules:

* A batch leaves as soon as the model is free; batches form out of what arrived while it was busy, so a lone call never waits.
* A batch holds at most one chunk of a session, and a session's chunks run in the order they came.
* Chunks are taken by due time. The due time of a session's next chunk is counted from the moment it became that session's first,
  not from its arrival: who sends ahead queues behind itself, so a greedy session cannot push others back, and no chunk waits
  longer than its own budget for its turn while the stage keeps up.
* A chunk whose deadline (arrival + budget) has passed is dropped, as is one of an older epoch than its session is at, as is one
  whose caller went away.
* An error belongs to one chunk. A batch that fails as a whole is run again one by one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from deployments.graph.errors import DeadlineExceededError, StageFailedError, StageOverloadedError, StaleEpochError
from kernels.errors import LiveAnchorError

Item = TypeVar("Item")
Result = TypeVar("Result")
BatchFunction = Callable[[Sequence[Item]], Awaitable[Sequence[Result | LiveAnchorError]]]


class BatchObserver(Protocol):
    """Hears what the batcher does, for metrics."""

    def queue_changed(self, queued: int) -> None:
        """The number of chunks that wait."""
        ...

    def batch_done(self, waits_s: Sequence[float], run_s: float) -> None:
        """A batch ran: how long each of its chunks had waited, and how long the batch took."""
        ...

    def dropped(self, reason: str) -> None:
        """A chunk got no result: `expired`, `cancelled`, `stale`, `overloaded` or `failed`."""
        ...


class SilentObserver:
    """Hears nothing."""

    def queue_changed(self, queued: int) -> None:
        """Nothing."""

    def batch_done(self, waits_s: Sequence[float], run_s: float) -> None:
        """Nothing."""

    def dropped(self, reason: str) -> None:
        """Nothing."""


@dataclass(eq=False)
class _Entry(Generic[Item, Result]):
    item: Item
    session_id: str
    epoch: int
    budget_s: float
    arrived: float
    due: float
    sequence: int
    future: asyncio.Future[Result]


class Batcher(Generic[Item, Result]):
    """Runs chunks of many sessions through one batch function, one batch at a time.

    Args:
        stage: Name for errors.
        run: Takes a batch, gives one result or typed error per item, in order.
        max_batch_size: Chunks per batch, >= 1.
        max_queued: Chunks that may wait, >= 1; one more is refused.
        clock: Monotonic seconds.
        observer: Hears queue changes, batches, drops.
    """

    def __init__(
        self,
        stage: str,
        run: BatchFunction[Item, Result],
        *,
        max_batch_size: int,
        max_queued: int,
        clock: Callable[[], float],
        observer: BatchObserver | None = None,
    ) -> None:
        self._stage = stage
        self._run = run
        self._max_batch_size = max_batch_size
        self._max_queued = max_queued
        self._clock = clock
        self._observer: BatchObserver = observer or SilentObserver()
        self._sessions: dict[str, deque[_Entry[Item, Result]]] = {}
        self._running: list[_Entry[Item, Result]] = []
        self._queued = 0
        self._sequence = 0
        self._worker: asyncio.Task[None] | None = None

    @property
    def queued(self) -> int:
        """Chunks that wait; those of the running batch do not count."""
        return self._queued

    async def submit(self, item: Item, *, session_id: str, remaining_ms: float, epoch: int = 0) -> Result:
        """Queue one chunk and wait for its result.

        Args:
            item: What the batch function understands.
            session_id: Whose chunk.
            remaining_ms: Time until nobody wants the result any more, counted from now.
            epoch: Raised by every interruption of the session; queued chunks of older epochs are dropped.

        Raises:
            DeadlineExceededError: The time ran out before its turn came.
            StageOverloadedError: Too much is queued.
            StaleEpochError: The session was interrupted meanwhile, or before.
            LiveAnchorError: What the batch function answered for this chunk.

        Cancelling the call takes the chunk out of the queue; a chunk that is already running finishes unheard.
        """
        now = self._clock()
        self._drop_older_epochs(session_id, epoch)
        if remaining_ms <= 0:
            self._observer.dropped("expired")
            raise DeadlineExceededError(self._stage, remaining_ms)
        if self._queued >= self._max_queued:
            self._observer.dropped("overloaded")
            raise StageOverloadedError(self._stage, self._queued)
        budget_s = remaining_ms / 1000
        entry: _Entry[Item, Result] = _Entry(
            item, session_id, epoch, budget_s, now, now + budget_s, self._sequence, asyncio.Future()
        )
        self._sequence += 1
        self._sessions.setdefault(session_id, deque()).append(entry)
        self._count(+1)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work(), name=f"batcher-{self._stage}")
        try:
            return await entry.future
        finally:
            if entry.future.cancelled():
                self._remove(entry)
                self._observer.dropped("cancelled")

    async def close(self) -> None:
        """Stop the running batch and fail everything queued."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
        for entry in [entry for queue in self._sessions.values() for entry in queue]:
            self._fail(entry, StageFailedError(self._stage, "the stage is shutting down"), "failed")

    async def _work(self) -> None:
        while self._sessions:
            batch = self._take()
            if batch:
                await self._execute(batch)

    def _take(self) -> list[_Entry[Item, Result]]:
        """The next batch: first chunks of their sessions, most urgent first."""
        now = self._clock()
        for queue in list(self._sessions.values()):
            for entry in [entry for entry in queue if entry.arrived + entry.budget_s <= now]:
                self._fail(entry, DeadlineExceededError(self._stage, entry.budget_s * 1000), "expired")
        firsts = sorted((queue[0] for queue in self._sessions.values()), key=lambda entry: (entry.due, entry.sequence))
        batch = firsts[: self._max_batch_size]
        for entry in batch:
            self._remove(entry)
        return batch

    async def _execute(self, batch: list[_Entry[Item, Result]]) -> None:
        started = self._clock()
        self._running = batch
        try:
            outcomes = await self._outcomes([entry.item for entry in batch])
        except asyncio.CancelledError:
            for entry in batch:
                self._fail(entry, StageFailedError(self._stage, "the stage is shutting down"), "failed")
            raise
        finally:
            self._running = []
        self._observer.batch_done([started - entry.arrived for entry in batch], self._clock() - started)
        for entry, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, LiveAnchorError):
                self._fail(entry, outcome, "failed")
            elif not entry.future.done():
                entry.future.set_result(outcome)

    async def _outcomes(self, items: list[Item]) -> list[Result | LiveAnchorError]:
        """One outcome per item, whatever the batch function does."""
        [outcome] = await asyncio.gather(self._run(items), return_exceptions=True)
        if not isinstance(outcome, BaseException):
            if len(outcome) == len(items):
                return list(outcome)
            return [StageFailedError(self._stage, f"{len(outcome)} results for {len(items)} chunks") for _ in items]
        if isinstance(outcome, asyncio.CancelledError):
            raise outcome
        if len(items) > 1:
            return [result for item in items for result in await self._outcomes([item])]
        if isinstance(outcome, LiveAnchorError):
            return [outcome]
        return [StageFailedError(self._stage, f"{type(outcome).__name__}: {outcome}")]

    def _drop_older_epochs(self, session_id: str, epoch: int) -> None:
        queue = list(self._sessions.get(session_id, ()))
        running = [entry for entry in self._running if entry.session_id == session_id]
        newest = max((entry.epoch for entry in (*queue, *running)), default=epoch)
        if newest > epoch:
            self._observer.dropped("stale")
            raise StaleEpochError(session_id, epoch, newest)
        for entry in [entry for entry in queue if entry.epoch < epoch]:
            self._fail(entry, StaleEpochError(session_id, entry.epoch, epoch), "stale")

    def _fail(self, entry: _Entry[Item, Result], error: LiveAnchorError, reason: str) -> None:
        self._remove(entry)
        if not entry.future.done():
            entry.future.set_exception(error)
            self._observer.dropped(reason)

    def _remove(self, entry: _Entry[Item, Result]) -> None:
        """Take an entry out of the queue, if it is still there; the time of the session's next one starts now."""
        queue = self._sessions.get(entry.session_id)
        if queue is None or entry not in queue:
            return
        was_first = queue[0] is entry
        queue.remove(entry)
        self._count(-1)
        if not queue:
            del self._sessions[entry.session_id]
        elif was_first:
            queue[0].due = self._clock() + queue[0].budget_s

    def _count(self, change: int) -> None:
        self._queued += change
        self._observer.queue_changed(self._queued)
