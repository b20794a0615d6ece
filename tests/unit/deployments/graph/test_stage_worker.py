"""What every stage replica shares: batches through one thread, counters, the health check; and job deadlines of a session."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray.serve")

from deployments.config import BatchSettings, DeadlineSettings, StageSettings
from deployments.graph.batcher import Overlap
from deployments.graph.calls import CallContext, Distribution
from deployments.graph.errors import DeadlineExceededError, StageFailedError
from deployments.graph.metrics import Tally
from deployments.graph.stage_worker import StageWorker
from deployments.graph.stages import GraphStages, StageHandles
from kernels.errors import InvalidInputError, LiveAnchorError
from pipeline.stages import RenderRequest, StageInfo
from pipeline.types import MotionChunk
from tests.support.manual_clock import ManualClock


def context(session: str) -> CallContext:
    return CallContext(session, 60_000.0)


def not_called() -> None:
    raise AssertionError("a healthy worker is not probed")


def test_a_measurement_runs_in_the_thread_of_the_model_and_only_where_no_call_is_in_work() -> None:
    started, hold = threading.Event(), threading.Event()

    def run(items: Sequence[int]) -> list[int | LiveAnchorError]:
        started.set()
        assert hold.wait(60)
        return list(items)

    async def go() -> None:
        worker: StageWorker[int, int] = StageWorker("test", run, lambda result: 1, StageSettings(), not_called)
        names: list[str] = []

        def measure() -> float:
            names.append(threading.current_thread().name)
            return 2.5

        assert await worker.when_idle(measure) == 2.5 and names[0].startswith("test")
        call = asyncio.create_task(worker.call(1, context("a")))
        await asyncio.to_thread(started.wait, 60)
        assert await worker.when_idle(measure) is None
        hold.set()
        await call
        assert len(names) == 1

    asyncio.run(go())


def test_batches_run_in_one_thread_and_are_counted() -> None:
    threads: set[str] = set()
    started = threading.Event()
    hold = threading.Event()

    def run(items: Sequence[int]) -> list[int | LiveAnchorError]:
        threads.add(threading.current_thread().name)
        started.set()
        assert hold.wait(60)
        return [InvalidInputError("item", str(item), "positive") if item < 0 else item * 2 for item in items]

    async def go() -> StageWorker[int, int]:
        worker: StageWorker[int, int] = StageWorker(
            "test", run, lambda result: result, StageSettings(batch=BatchSettings(max_size=4)), not_called
        )
        calls = [asyncio.create_task(worker.call(item, context(str(item)))) for item in (1, 2, -3, 4)]
        await asyncio.to_thread(started.wait, 60)
        hold.set()
        got = await asyncio.gather(*calls, return_exceptions=True)
        assert [got[0], got[1], got[3]] == [2, 4, 8] and isinstance(got[2], InvalidInputError)
        return worker

    worker = asyncio.run(go())
    assert len(threads) == 1 and next(iter(threads)).startswith("test")
    assert worker._calls == 4
    assert worker._metrics.frames == 14 and worker._metrics.dropped_by_reason == {"failed": 1}
    sizes, waits = worker._metrics.batch_size.snapshot(), worker._metrics.wait_ms.snapshot()
    assert sizes.total == sum(waits.counts) == 4, "one wait for every chunk"
    assert sum(sizes.counts) == sum(worker._metrics.batch_ms.snapshot().counts) == worker._metrics.batches


def test_a_value_on_a_boundary_belongs_below_it() -> None:
    tally = Tally([1.0, 2.0])
    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        tally.observe(value)
    assert tally.snapshot() == Distribution((1.0, 2.0), (2, 2, 1), 7.5)


def test_a_batch_that_never_ends_makes_the_replica_unhealthy() -> None:
    clock = ManualClock(10.0)
    started = threading.Event()
    hold = threading.Event()

    def run(items: Sequence[int]) -> list[int | LiveAnchorError]:
        started.set()
        assert hold.wait(60)
        return list(items)

    async def go() -> None:
        worker: StageWorker[int, int] = StageWorker(
            "test", run, lambda result: 1, StageSettings(stuck_after_s=30), not_called, clock
        )
        await worker.check()
        call = asyncio.create_task(worker.call(1, context("a")))
        await asyncio.to_thread(started.wait, 60)
        clock.now += 29
        await worker.check()
        clock.now += 2
        with pytest.raises(StageFailedError, match="31 s"):
            await worker.check()
        hold.set()
        assert await call == 1
        await worker.check()

    asyncio.run(go())


class Away(LiveAnchorError):
    """Something that a probe needs is not there at the moment."""

    retryable = True


def test_a_model_that_is_broken_for_good_makes_the_replica_unhealthy() -> None:
    """As after an illegal memory access on a GPU: every call fails at once, nothing is ever stuck."""
    probed: list[str] = []
    faults: list[Exception] = [
        ZeroDivisionError("CUDA error: illegal memory access\nmore"),
        Away(),
        ZeroDivisionError(),
    ]

    def run(items: Sequence[int]) -> list[int | LiveAnchorError]:
        if 0 in items:
            raise ZeroDivisionError
        return [InvalidInputError("item", "-1", "positive") if item < 0 else item for item in items]

    def probe() -> None:
        probed.append(threading.current_thread().name)
        if faults:
            raise faults.pop(0)

    async def go() -> None:
        worker: StageWorker[int, int] = StageWorker("test", run, lambda result: 1, StageSettings(), probe)
        with pytest.raises(InvalidInputError):
            await worker.call(-1, context("a"))
        await worker.check()
        assert not probed, "what a caller did wrong says nothing about the model"
        with pytest.raises(StageFailedError):
            await worker.call(0, context("a"))
        with pytest.raises(StageFailedError, match="its own test works: CUDA error: illegal memory access$"):
            await worker.check()
        await worker.check()
        with pytest.raises(StageFailedError, match="ZeroDivisionError"):
            await worker.check()
        await worker.check()
        await worker.check()
        assert len(probed) == 4 and all(name.startswith("test") for name in probed), "healed: not asked any more"
        with pytest.raises(StageFailedError):
            await worker.call(0, context("a"))
        assert await worker.call(7, context("a")) == 7
        await worker.check()
        assert len(probed) == 4, "a batch that works is as good as a probe"

    asyncio.run(go())


def test_a_model_that_overlaps_its_work_has_several_chunks_and_is_stuck_by_its_oldest() -> None:
    clock = ManualClock(10.0)
    given: dict[int, Future[int]] = {}

    def pipeline(item: int) -> Future[int]:
        given[item] = Future()
        return given[item]

    def not_run(items: Sequence[int]) -> list[int | LiveAnchorError]:
        raise AssertionError("the pipeline has the model")

    async def go() -> None:
        worker: StageWorker[int, int] = StageWorker(
            "test",
            not_run,
            lambda result: result,
            StageSettings(stuck_after_s=30),
            not_called,
            clock,
            pipeline=pipeline,
            overlap=Overlap(lambda item: item, 9),
        )
        calls = [asyncio.create_task(worker.call(item, context(str(item)))) for item in (5, 6, 7)]
        for _ in range(20):
            await asyncio.sleep(0)
        assert sorted(given) == [5, 6], "two fill the room"
        clock.now += 20
        given[6].set_exception(InvalidInputError("item", "6", "others"))
        with pytest.raises(InvalidInputError):
            await calls[1]
        await worker.check()
        clock.now += 11
        with pytest.raises(StageFailedError, match="31 s"):
            await worker.check()
        given[5].set_result(10)
        assert await calls[0] == 10
        for _ in range(20):
            await asyncio.sleep(0)
        given[7].set_result(14)
        assert await calls[2] == 14
        await worker.check()
        assert worker._metrics.frames == 24 and worker._metrics.dropped_by_reason == {"failed": 1}

    asyncio.run(go())


class Handle:
    """A deployment handle that must not be called any more."""

    def options(self, **options: Any) -> Handle:
        return self

    def remote(self, *args: object) -> Any:
        raise AssertionError("called after the deadline")


def test_a_job_past_its_deadline_makes_no_further_calls() -> None:
    clock = ManualClock(10.0)
    handle: Any = Handle()
    info = StageInfo("mini", 8, 640, 1920, 25, True)
    stages = GraphStages(
        StageHandles(handle, handle, handle, handle), info, "job", budget_s=60.0, deadline=12.0, clock=clock
    )
    clock.now = 12.5
    request = RenderRequest("a" * 32, MotionChunk(np.zeros((1, 265), np.float32), 0), None, 25, "bt709")
    with pytest.raises(DeadlineExceededError, match="renderer"):
        asyncio.run(stages.renderer(request))
    assert not stages.retries


def test_the_time_that_a_job_gets_grows_with_its_speech() -> None:
    deadlines = DeadlineSettings(job_base_s=100, job_per_audio_s=5)
    assert deadlines.job_s(0) == 100 and deadlines.job_s(60) == 400
