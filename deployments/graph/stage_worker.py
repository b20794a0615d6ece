"""What every stage replica has: one thread for the model, the batcher before it, counters, a health check."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from ray import serve

from deployments.config import StageSettings
from deployments.graph.batcher import Batcher, Overlap
from deployments.graph.calls import CallContext, StageStats
from deployments.graph.errors import StageFailedError
from deployments.graph.metrics import StageMetrics
from deployments.graph.placement import gpu_memory
from kernels.errors import LiveAnchorError, first_line

Item = TypeVar("Item")
Result = TypeVar("Result")


def replica_id() -> str:
    """Id of the replica that this code runs in."""
    return str(serve.get_replica_context().replica_id.unique_id)


class StageWorker(Generic[Item, Result]):
    """A model behind one thread; calls of all sessions come in, batches go through.

    Args:
        stage: Name of the stage.
        run: Takes a batch, gives one result or typed error per item; called in the thread.
        frames_of: Frames in a result, for the counters.
        settings: Batch size, queue length, when a batch counts as stuck.
        probe: A tiny inference; called in the thread.
        clock: Monotonic seconds.
        pipeline: Where the model overlaps its work: takes one item and gives its result later; `run` is then not called.
        overlap: With `pipeline`: how much it takes at once.
        several: Whether the model keeps nothing between chunks, so that a batch may hold several of one session.
    """

    def __init__(
        self,
        stage: str,
        run: Callable[[Sequence[Item]], Sequence[Result | LiveAnchorError]],
        frames_of: Callable[[Result], int],
        settings: StageSettings,
        probe: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
        pipeline: Callable[[Item], Future[Result]] | None = None,
        overlap: Overlap[Item] | None = None,
        several: bool = False,
    ) -> None:
        self._stage = stage
        self._run = run
        self._frames_of = frames_of
        self._settings = settings
        self._probe = probe
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=stage)
        self._metrics = StageMetrics(stage)
        self._calls = 0
        self._pipeline = pipeline
        self._running_since: dict[int, float] = {}
        self._suspect = False
        self._batcher: Batcher[Item, Result] = Batcher(
            stage,
            self._run_batch,
            max_batch_size=settings.batch.max_size,
            max_queued=settings.batch.max_queued,
            clock=clock,
            observer=self._metrics,
            gather_s=settings.batch.gather_ms / 1000,
            overlap=overlap,
            several=several,
        )

    async def call(self, item: Item, context: CallContext) -> Result:
        """Queue one chunk and wait for its result; see `Batcher.submit` for errors."""
        self._calls += 1
        result = await self._batcher.submit(
            item, session_id=context.session_id, remaining_ms=context.remaining_ms, epoch=context.epoch
        )
        self._metrics.frames_made(self._frames_of(result))
        return result

    async def check(self) -> None:
        """The health check: cheap, but a tiny inference once a batch has failed in a way that was not foreseen.

        Raises:
            StageFailedError: A batch has been running for too long, or not even the tiny inference works, as on a GPU whose context
                is lost; a fresh replica is the only cure.
        """
        since = min(self._running_since.values(), default=None)
        if since is not None and self._clock() - since > self._settings.stuck_after_s:
            raise StageFailedError(self._stage, f"a batch has been running for {self._clock() - since:.0f} s")
        if not self._suspect:
            return
        loop = asyncio.get_running_loop()
        [outcome] = await asyncio.gather(loop.run_in_executor(self._thread, self._probe), return_exceptions=True)
        if isinstance(outcome, LiveAnchorError) and outcome.retryable:
            return  # a store that is away says nothing about the model; it is asked again
        if isinstance(outcome, BaseException):
            raise StageFailedError(self._stage, f"not even its own test works: {first_line(outcome)}") from outcome
        self._suspect = False

    async def when_idle(self, work: Callable[[], float]) -> float | None:
        """Run something short in the model's thread unless calls are queued or in work; None where they are."""
        if self._batcher.queued or self._running_since:
            return None
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def stats(self, warm: Sequence[str] = ()) -> StageStats:
        """Counters since the start."""
        return StageStats(
            stage=self._stage,
            replica_id=replica_id(),
            calls=self._calls,
            batches=self._metrics.batches,
            largest_batch=self._metrics.largest_batch,
            frames=self._metrics.frames,
            queued=self._batcher.queued,
            dropped=dict(self._metrics.dropped_by_reason),
            warm=tuple(warm),
            pid=os.getpid(),
            batch_size=self._metrics.batch_size.snapshot(),
            wait_ms=self._metrics.wait_ms.snapshot(),
            batch_ms=self._metrics.batch_ms.snapshot(),
            gpu=gpu_memory(),
        )

    async def _run_batch(self, items: Sequence[Item]) -> Sequence[Result | LiveAnchorError]:
        batch = id(items)
        self._running_since[batch] = self._clock()
        suspect = True
        outcomes: Sequence[Result | LiveAnchorError]
        try:
            if self._pipeline is not None:
                outcomes = await self._overlapped(self._pipeline, items)
            else:
                outcomes = await asyncio.get_running_loop().run_in_executor(self._thread, self._run, items)
            suspect = False
            return outcomes
        finally:
            del self._running_since[batch]
            self._suspect = suspect

    @staticmethod
    async def _overlapped(
        pipeline: Callable[[Item], Future[Result]], items: Sequence[Item]
    ) -> list[Result | LiveAnchorError]:
        outcomes: list[Result | LiveAnchorError] = []
        for future in [asyncio.wrap_future(pipeline(item)) for item in items]:
            try:
                outcomes.append(await future)
            except LiveAnchorError as error:
                outcomes.append(error)
        return outcomes
