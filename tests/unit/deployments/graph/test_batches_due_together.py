"""The batcher where calls wait for company, and where batches overlap; on a fake clock."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from deployments.graph.batcher import Batcher, Overlap
from deployments.graph.errors import StageFailedError
from kernels.errors import LiveAnchorError
from tests.support.batches import Ears, Model, open_gate, settle, start


class Pauses:
    """Pauses that end when the test says so; remembers how long they were to be."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self._ends: list[asyncio.Event] = []

    async def __call__(self, seconds: float) -> None:
        self.asked.append(round(seconds, 6))
        self._ends.append(asyncio.Event())
        await self._ends[-1].wait()

    def end(self) -> None:
        for one in self._ends:
            one.set()


async def active(batcher: Batcher[str, str], names: str) -> None:
    """Let these sessions have spoken just now."""
    await asyncio.gather(*(batcher.submit(name, session_id=name, remaining_ms=1e6) for name in names))


def gathering(model: Model, pauses: Pauses, size: int = 16, gather_s: float = 0.02) -> Batcher[str, str]:
    return Batcher(
        "stage", model.run, max_batch_size=size, max_queued=99, clock=model.clock, gather_s=gather_s, pause=pauses
    )


def test_sessions_that_are_due_together_share_a_batch_and_leave_when_all_are_there() -> None:
    async def go() -> None:
        model, pauses = Model(batch_s=0.0), Pauses()
        batcher = gathering(model, pauses)
        await active(batcher, "abcd")
        model.batches.clear()
        calls = [start(batcher.submit(f"{name}2", session_id=name, remaining_ms=1e6)) for name in "abc"]
        await settle()
        assert not model.batches and pauses.asked[0] == 0.02, "the fourth is expected"
        model.now += 0.005
        calls.append(start(batcher.submit("d2", session_id="d", remaining_ms=1e6)))
        await asyncio.gather(*calls)
        assert model.batches == [["a2", "b2", "c2", "d2"]]

    asyncio.run(go())


def test_nobody_waits_longer_for_company_than_the_window_or_a_tenth_of_its_time() -> None:
    async def go() -> None:
        model, pauses = Model(batch_s=0.0), Pauses()
        batcher = gathering(model, pauses)
        await active(batcher, "abcd")
        model.batches.clear()
        pauses.asked.clear()
        call = start(batcher.submit("a2", session_id="a", remaining_ms=100))
        await settle()
        assert pauses.asked == [0.01], "a tenth of 100 ms"
        model.now += 0.01
        pauses.end()
        assert await call == "A2" and model.batches == [["a2"]]

    asyncio.run(go())


@pytest.mark.parametrize(("names", "later_s"), [("abc", 0.0), ("abcdef", 1.5)])
def test_where_few_sessions_are_active_a_chunk_leaves_at_once(names: str, later_s: float) -> None:
    async def go() -> None:
        model, pauses = Model(batch_s=0.0), Pauses()
        batcher = gathering(model, pauses)
        await asyncio.gather(*(batcher.submit(name, session_id=name, remaining_ms=1e6) for name in names[:3]))
        for name in names[3:]:
            call = start(batcher.submit(name, session_id=name, remaining_ms=1e6))
            await settle()
            model.now += 0.02
            pauses.end()
            await call
        model.now += later_s
        pauses.asked.clear()
        assert await batcher.submit("z", session_id="a", remaining_ms=1e6) == "Z"
        assert not pauses.asked

    asyncio.run(go())


def test_a_full_batch_waits_for_nobody() -> None:
    async def go() -> None:
        model, pauses = Model(batch_s=0.0), Pauses()
        batcher = gathering(model, pauses, size=2)
        await active(batcher, "abcdef")
        pauses.asked.clear()
        calls = [start(batcher.submit(f"{name}2", session_id=name, remaining_ms=1e6)) for name in "ab"]
        await asyncio.gather(*calls)
        assert model.batches[-1] == ["a2", "b2"] and not pauses.asked

    asyncio.run(go())


def overlapping(model: Model, room: int, ears: Ears | None = None) -> Batcher[str, str]:
    overlap: Overlap[str] = Overlap(lambda item: int(item[1:]), room)
    return Batcher(
        "stage", model.run, max_batch_size=1, max_queued=99, clock=model.clock, observer=ears, overlap=overlap
    )


def test_a_model_that_overlaps_gets_chunks_while_there_is_room_most_urgent_first() -> None:
    async def go() -> None:
        model, ears = Model(), Ears()
        model.gate = asyncio.Semaphore(0)
        batcher = overlapping(model, 12, ears)
        calls = [start(batcher.submit(f"{name}5", session_id=name, remaining_ms=9000)) for name in "abc"]
        await settle()
        assert model.batches == [["a5"], ["b5"], ["c5"]], "10 of 12 frames leave room for one more"
        calls += [start(batcher.submit("d5", session_id="d", remaining_ms=9000))]
        calls += [start(batcher.submit("e5", session_id="e", remaining_ms=50))]
        await settle()
        assert len(model.batches) == 3 and batcher.queued == 2
        model.gate.release()
        await settle()
        assert model.batches[3:] == [["e5"]] and batcher.queued == 1, "who is due first goes first"
        open_gate(model)
        assert await asyncio.gather(*calls) == ["A5", "B5", "C5", "D5", "E5"]
        assert ears.sizes == [1] * 5

    asyncio.run(go())


def test_time_in_which_batches_overlap_counts_once() -> None:
    async def go() -> list[float]:
        ran: list[float] = []

        class Meter(Ears):
            def batch_done(self, waits_s: Sequence[float], run_s: float) -> None:
                ran.append(run_s)

        model = Model(batch_s=0.02)
        model.gate = asyncio.Semaphore(0)
        batcher = overlapping(model, 99, Meter())
        calls = [start(batcher.submit(f"{name}5", session_id=name, remaining_ms=9000)) for name in "abc"]
        await settle()
        open_gate(model)
        await asyncio.gather(*calls)
        return ran

    ran = asyncio.run(go())
    assert sum(ran) == pytest.approx(0.06), "three batches began together; the model was busy for 60 ms"


def test_an_error_in_work_that_overlaps_is_its_chunk_s_own() -> None:
    async def go() -> None:
        model = Model()
        batcher = overlapping(model, 99)
        calls = [batcher.submit(name, session_id=name, remaining_ms=9000) for name in ("a5", "b5")]

        async def broken(items: Sequence[str]) -> list[str | LiveAnchorError]:
            if items == ["a5"]:
                raise ZeroDivisionError("boom")
            return [item.upper() for item in items]

        batcher._run = broken
        first, second = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(first, StageFailedError) and second == "B5"

    asyncio.run(go())


def test_closing_ends_work_that_overlaps() -> None:
    async def go() -> None:
        model = Model()
        model.gate = asyncio.Semaphore(0)
        batcher = overlapping(model, 6)
        calls = [start(batcher.submit(f"{name}5", session_id=name, remaining_ms=9000)) for name in "abc"]
        await settle()
        await batcher.close()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(one, StageFailedError) for one in outcomes)

    asyncio.run(go())
