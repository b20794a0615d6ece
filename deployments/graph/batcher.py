"""The deadline-ordered batcher: calls of many sessions -> batches of one model. Plain asyncio, no Ray.

The rules:

* A batch leaves as soon as the model is free; batches form out of what arrived while it was busy, so a lone call never waits.
* Where several sessions are active, a batch may wait a moment (`gather_s`, at most a tenth of any chunk's own budget) for those
  that are due together: a small model does sixteen windows in little more than the time of one.
* A model that overlaps its work (`overlap`) takes chunk after chunk, most urgent first, while there is room in its pipeline.
* A batch holds at most one chunk of a session, and a session's chunks run in the order they came. Where a stage keeps nothing
  between chunks (`several`), further ones of a session may fill what room the first chunks of all sessions leave.
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
from typing import Final, Generic, TypeVar

from deployments.graph.batch_observer import BatchObserver, SilentObserver
from deployments.graph.errors import DeadlineExceededError, StageFailedError, StageOverloadedError, StaleEpochError
from kernels.errors import LiveAnchorError

Item = TypeVar("Item")
Result = TypeVar("Result")
BatchFunction = Callable[[Sequence[Item]], Awaitable[Sequence[Result | LiveAnchorError]]]


ACTIVE_S: Final = 1.0
"""A session that sent a chunk within this time is active."""
GATHER_FROM: Final = 4
"""With fewer active sessions the model has time to spare, and no chunk waits for company."""
LARGEST_WAIT: Final = 0.1
"""Share of a chunk's budget that it may spend on waiting for company."""


@dataclass(frozen=True)
class Overlap(Generic[Item]):
    """How much a model that overlaps its work takes at once.

    Attributes:
        weigh: Size of a chunk, such as its frames.
        room: A further chunk is handed over while those in work weigh less than this.
    """

    weigh: Callable[[Item], int]
    room: int


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
        gather_s: How long a batch may wait for chunks that are due together.
        pause: Sleeps for some seconds.
        overlap: Where the model overlaps its work; chunks then leave one by one, and `max_batch_size` and `gather_s` say nothing.
        several: Whether a batch may hold several chunks of a session.
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
        gather_s: float = 0.0,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        overlap: Overlap[Item] | None = None,
        several: bool = False,
    ) -> None:
        self._stage = stage
        self._several = several
        self._run = run
        self._max_batch_size = max_batch_size
        self._max_queued = max_queued
        self._clock = clock
        self._observer: BatchObserver = observer or SilentObserver()
        self._sessions: dict[str, deque[_Entry[Item, Result]]] = {}
        self._gather_s = gather_s
        self._pause = pause
        self._overlap = overlap
        self._running: list[_Entry[Item, Result]] = []
        self._in_work: set[asyncio.Task[None]] = set()
        self._last_done = 0.0
        self._active: dict[str, float] = {}
        self._came = asyncio.Event()
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
            session_id: Session that the chunk belongs to.
            remaining_ms: Time until the result is not wanted any more, counted from now.
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
        self._active.pop(session_id, None)  # the order is that of the last chunks
        self._active[session_id] = now
        self._came.set()
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
        """Stop what runs and fail everything queued."""
        stopped = [*self._in_work, *([self._worker] if self._worker is not None else [])]
        for task in stopped:
            task.cancel()
        await asyncio.gather(*stopped, return_exceptions=True)
        for entry in [entry for queue in self._sessions.values() for entry in queue]:
            self._fail(entry, StageFailedError(self._stage, "the stage is shutting down"), "failed")

    async def _work(self) -> None:
        while self._sessions:
            if self._overlap is not None:
                await self._hand_over(self._overlap)
                continue
            await self._gather()
            batch = self._take(self._max_batch_size)
            if batch:
                await self._execute(batch)

    async def _hand_over(self, overlap: Overlap[Item]) -> None:
        """The most urgent chunk, as soon as there is room for it."""
        while self._running and sum(overlap.weigh(entry.item) for entry in self._running) >= overlap.room:
            await asyncio.wait(self._in_work, return_when=asyncio.FIRST_COMPLETED)
        batch = self._take(1)
        if batch:
            self._running += batch
            task = asyncio.create_task(self._execute(batch), name=f"batch-{self._stage}")
            self._in_work.add(task)
            task.add_done_callback(self._in_work.discard)

    async def _gather(self) -> None:
        """Wait a moment for sessions that are due together, where there are several."""
        while self._gather_s > 0 and self._sessions:
            now = self._clock()
            while self._active and next(iter(self._active.values())) < now - ACTIVE_S:
                del self._active[next(iter(self._active))]
            expected = min(len(self._active), self._max_batch_size)
            entries = [queue[0] for queue in self._sessions.values()]
            until = min(entry.arrived + min(self._gather_s, LARGEST_WAIT * entry.budget_s) for entry in entries)
            if len(self._active) < GATHER_FROM or len(entries) >= expected or until <= now:
                return
            self._came.clear()
            waits = [asyncio.ensure_future(self._pause(until - now)), asyncio.ensure_future(self._came.wait())]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in waits:
                    one.cancel()

    def _take(self, most: int) -> list[_Entry[Item, Result]]:
        """The next batch: first chunks of at most so many sessions, most urgent first, and further ones where they may be."""
        now = self._clock()
        for queue in list(self._sessions.values()):
            for entry in [entry for entry in queue if entry.arrived + entry.budget_s <= now]:
                self._fail(entry, DeadlineExceededError(self._stage, entry.budget_s * 1000), "expired")
        firsts = sorted((queue[0] for queue in self._sessions.values()), key=lambda entry: (entry.due, entry.sequence))
        batch = firsts[:most]
        if self._several:
            further = [entry for first in batch for entry in list(self._sessions[first.session_id])[1:]]
            batch += further[: most - len(batch)]
        for entry in batch:
            self._remove(entry)
        return batch

    async def _execute(self, batch: list[_Entry[Item, Result]]) -> None:
        started = self._clock()
        self._running = [*self._running, *(entry for entry in batch if entry not in self._running)]
        try:
            outcomes = await self._outcomes([entry.item for entry in batch])
        except asyncio.CancelledError:
            for entry in batch:
                self._fail(entry, StageFailedError(self._stage, "the stage is shutting down"), "failed")
            raise
        finally:
            self._running = [entry for entry in self._running if entry not in batch]
        now = self._clock()
        self._observer.batch_done([started - entry.arrived for entry in batch], now - max(started, self._last_done))
        self._last_done = now
        for entry, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, LiveAnchorError):
                self._fail(entry, outcome, "failed")
            elif not entry.future.done():
                entry.future.set_result(outcome)

    async def _outcomes(self, items: list[Item]) -> list[Result | LiveAnchorError]:
        """Give one outcome per item, whatever the batch function does."""
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
