"""The batcher on a fake clock: who runs when, with whom, and what happens to those who do not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from deployments.graph.batcher import Batcher
from deployments.graph.errors import DeadlineExceededError, StageFailedError, StageOverloadedError, StaleEpochError
from kernels.errors import InvalidInputError, LiveAnchorError
from tests.support.batches import Ears, Model, make, occupied, open_gate, settle, start


def test_a_lone_chunk_runs_at_once_and_alone() -> None:
    async def go() -> None:
        model, ears = Model(), Ears()
        batcher = make(model, ears=ears)
        assert await batcher.submit("a", session_id="s", remaining_ms=100) == "A"
        assert model.batches == [["a"]]
        assert ears.sizes == [1] and ears.waits == [0.0] and ears.lengths[-1] == 0
        assert batcher.queued == 0

    asyncio.run(go())


def test_chunks_of_several_sessions_share_a_batch_most_urgent_first() -> None:
    async def go() -> None:
        model = Model()
        batcher = make(model, size=2)
        first = await occupied(model, batcher)
        rest = [
            start(batcher.submit(name, session_id=name, remaining_ms=budget))
            for name, budget in [("lazy", 9000), ("soon", 500), ("sooner", 400)]
        ]
        await settle()
        open_gate(model)
        assert await asyncio.gather(first, *rest) == ["FIRST", "LAZY", "SOON", "SOONER"]
        assert model.batches == [["first"], ["sooner", "soon"], ["lazy"]]

    asyncio.run(go())


def test_a_batch_holds_one_chunk_of_a_session_and_keeps_their_order() -> None:
    async def go() -> None:
        model = Model()
        batcher = make(model, size=8)
        first = await occupied(model, batcher)
        rest = [start(batcher.submit(f"a{i}", session_id="a", remaining_ms=9000 - i)) for i in range(3)]
        rest.append(start(batcher.submit("b0", session_id="b", remaining_ms=9000)))
        await settle()
        open_gate(model)
        await asyncio.gather(first, *rest)
        assert model.batches == [["first"], ["a0", "b0"], ["a1"], ["a2"]]

    asyncio.run(go())


def test_where_nothing_is_kept_further_chunks_of_a_session_fill_the_room_that_others_leave() -> None:
    async def go() -> None:
        model = Model()
        batcher = make(model, size=4, several=True)
        first = await occupied(model, batcher)
        rest = [start(batcher.submit(f"a{i}", session_id="a", remaining_ms=9000)) for i in range(5)]
        rest.append(start(batcher.submit("b0", session_id="b", remaining_ms=9500)))
        await settle()
        open_gate(model)
        answers = await asyncio.gather(first, *rest)
        assert model.batches == [["first"], ["a0", "b0", "a1", "a2"], ["a3", "a4"]]
        assert answers == ["FIRST", *(f"A{i}" for i in range(5)), "B0"]

    asyncio.run(go())


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_greedy_session_delays_others_by_at_most_one_batch_each(size: int) -> None:
    """Forty chunks of one session wait; a session that sends one at a time still gets every second place at worst."""

    async def go() -> None:
        model = Model()
        batcher = make(model, size=size)
        first = await occupied(model, batcher)
        greedy = [start(batcher.submit(f"g{i}", session_id="greedy", remaining_ms=10_000)) for i in range(40)]
        await settle()
        open_gate(model)

        async def modest() -> list[float]:
            waits = []
            for i in range(10):
                asked = model.now
                await batcher.submit(f"m{i}", session_id="modest", remaining_ms=10_000)
                waits.append(model.finished_at[f"m{i}"] - asked)
            return waits

        waits = await modest()
        assert max(waits) <= 3 * model.batch_s + 1e-9
        await asyncio.gather(first, *greedy)
        order = [item for batch in model.batches for item in batch if item.startswith("g")]
        assert order == [f"g{i}" for i in range(40)]

    asyncio.run(go())


def test_an_urgent_session_overtakes_one_that_has_time() -> None:
    async def go() -> None:
        model = Model()
        batcher = make(model, size=1)
        first = await occupied(model, batcher)
        jobs = [start(batcher.submit(f"file{i}", session_id="file", remaining_ms=60_000)) for i in range(5)]
        await settle()
        live = start(batcher.submit("live", session_id="live", remaining_ms=200))
        await settle()
        open_gate(model)
        await asyncio.gather(first, live, *jobs)
        assert [item for batch in model.batches for item in batch][:3] == ["first", "live", "file0"]

    asyncio.run(go())


def test_a_patient_session_is_not_starved_by_urgent_ones() -> None:
    """Urgent chunks arrive without end; the patient one runs before its budget is over."""

    async def go() -> None:
        model = Model(batch_s=0.1)
        batcher = make(model, size=1)
        first = await occupied(model, batcher)
        patient = start(batcher.submit("patient", session_id="file", remaining_ms=1000))
        await settle()
        open_gate(model)
        sent = 0
        while not patient.done() and sent < 100:
            await batcher.submit(f"u{sent}", session_id="live", remaining_ms=150)
            sent += 1
        assert await patient == "PATIENT"
        assert model.finished_at["patient"] <= 100.0 + 1.0 + 0.1 + 1e-9
        await first

    asyncio.run(go())


def test_late_comers_join_the_next_batch_while_one_runs() -> None:
    async def go() -> None:
        model = Model()
        batcher = make(model)
        first = await occupied(model, batcher)
        early = start(batcher.submit("early", session_id="e", remaining_ms=1000))
        await settle()
        late = start(batcher.submit("late", session_id="l", remaining_ms=1000))
        await settle()
        assert model.batches == [["first"]]
        open_gate(model)
        await asyncio.gather(first, early, late)
        assert model.batches[1] == ["early", "late"]

    asyncio.run(go())


def test_a_typed_error_hits_only_its_own_chunk() -> None:
    async def go() -> None:
        model, ears = Model(), Ears()
        batcher = make(model, ears=ears)
        first = await occupied(model, batcher)
        rest = [start(batcher.submit(n, session_id=n, remaining_ms=1000)) for n in ("a", "bad", "c")]
        await settle()
        open_gate(model)
        got = await asyncio.gather(first, *rest, return_exceptions=True)
        assert got[0] == "FIRST" and got[1] == "A" and got[3] == "C"
        assert isinstance(got[2], InvalidInputError) and got[2].got == "bad"
        assert ears.drops == ["failed"]

    asyncio.run(go())


def test_a_batch_that_blows_up_is_run_again_one_by_one() -> None:
    async def go() -> None:
        model = Model()
        batcher = make(model)
        first = await occupied(model, batcher)
        rest = [start(batcher.submit(n, session_id=n, remaining_ms=1000)) for n in ("a", "explode", "c")]
        await settle()
        open_gate(model)
        got = await asyncio.gather(first, *rest, return_exceptions=True)
        assert got[1] == "A" and got[3] == "C"
        assert isinstance(got[2], StageFailedError) and "ZeroDivisionError: boom" in str(got[2])
        assert model.batches[1:] == [["a", "explode", "c"], ["a"], ["explode"], ["c"]]
        assert await batcher.submit("again", session_id="s", remaining_ms=100) == "AGAIN"

    asyncio.run(go())


def test_the_wrong_number_of_results_is_a_failure_not_a_mix_up() -> None:
    async def short(items: Sequence[str]) -> list[str | LiveAnchorError]:
        return []

    async def go() -> None:
        batcher: Batcher[str, str] = Batcher("stage", short, max_batch_size=2, max_queued=2, clock=lambda: 0.0)
        with pytest.raises(StageFailedError, match="0 results for 1"):
            await batcher.submit("a", session_id="a", remaining_ms=1000)

    asyncio.run(go())


def test_a_cancelled_call_leaves_the_queue() -> None:
    async def go() -> None:
        model, ears = Model(), Ears()
        batcher = make(model, ears=ears)
        first = await occupied(model, batcher)
        gone = start(batcher.submit("gone", session_id="g", remaining_ms=1000))
        stays = start(batcher.submit("stays", session_id="s", remaining_ms=1000))
        await settle()
        assert batcher.queued == 2
        gone.cancel()
        await settle()
        assert batcher.queued == 1 and ears.drops == ["cancelled"]
        open_gate(model)
        assert await stays == "STAYS"
        assert gone.cancelled() and "gone" not in model.finished_at
        await first

    asyncio.run(go())


def test_cancelling_a_running_chunk_does_not_disturb_its_batch() -> None:
    async def go() -> None:
        model = Model()
        batcher = make(model)
        first = await occupied(model, batcher)
        a, b = (start(batcher.submit(n, session_id=n, remaining_ms=1000)) for n in "ab")
        await settle()
        assert model.gate is not None
        model.gate.release()
        await settle()
        assert model.batches[-1] == ["a", "b"]
        a.cancel()
        open_gate(model)
        assert await b == "B" and await first == "FIRST"
        assert a.cancelled()

    asyncio.run(go())


def test_deadlines_count_from_arrival_and_expired_chunks_never_run() -> None:
    async def go() -> None:
        model, ears = Model(batch_s=0.3), Ears()
        batcher = make(model, ears=ears)
        first = await occupied(model, batcher)
        late = start(batcher.submit("late", session_id="l", remaining_ms=299))
        fine = start(batcher.submit("fine", session_id="f", remaining_ms=301))
        await settle()
        open_gate(model)
        await first
        with pytest.raises(DeadlineExceededError, match="299 ms"):
            await late
        assert await fine == "FINE"
        assert "late" not in model.finished_at and ears.drops == ["expired"]

    asyncio.run(go())


def test_no_time_left_is_refused_at_the_door() -> None:
    async def go() -> None:
        model = Model()
        with pytest.raises(DeadlineExceededError):
            await make(model).submit("a", session_id="a", remaining_ms=0)
        assert not model.batches

    asyncio.run(go())


def test_an_interruption_drops_queued_work_of_older_epochs() -> None:
    async def go() -> None:
        model, ears = Model(), Ears()
        batcher = make(model, ears=ears)
        first = await occupied(model, batcher)
        old = [start(batcher.submit(f"old{i}", session_id="s", remaining_ms=1000, epoch=1)) for i in range(2)]
        other = start(batcher.submit("other", session_id="o", remaining_ms=1000, epoch=0))
        await settle()
        new = start(batcher.submit("new", session_id="s", remaining_ms=1000, epoch=2))
        await settle()
        for task in old:
            with pytest.raises(StaleEpochError, match="epoch 1 was dropped"):
                await task
        with pytest.raises(StaleEpochError):
            await batcher.submit("straggler", session_id="s", remaining_ms=1000, epoch=1)
        open_gate(model)
        assert await asyncio.gather(first, other, new) == ["FIRST", "OTHER", "NEW"]
        assert ears.drops == ["stale"] * 3
        assert sorted(model.batches[1]) == ["new", "other"]

    asyncio.run(go())


def test_a_straggler_of_an_older_epoch_is_dropped_while_the_newer_one_runs() -> None:
    """Calls of one session may overtake each other on their way."""

    async def go() -> None:
        model, ears = Model(), Ears()
        batcher = make(model, ears=ears)
        model.gate = asyncio.Semaphore(0)
        new = start(batcher.submit("new", session_id="s", remaining_ms=1000, epoch=2))
        await settle()
        with pytest.raises(StaleEpochError):
            await batcher.submit("straggler", session_id="s", remaining_ms=1000, epoch=1)
        same = start(batcher.submit("same", session_id="s", remaining_ms=1000, epoch=2))
        other = start(batcher.submit("other", session_id="o", remaining_ms=1000, epoch=0))
        await settle()
        open_gate(model)
        assert await asyncio.gather(new, same, other) == ["NEW", "SAME", "OTHER"]
        assert ears.drops == ["stale"]

    asyncio.run(go())


def test_a_full_queue_refuses_the_next_and_recovers() -> None:
    async def go() -> None:
        model, ears = Model(), Ears()
        batcher = make(model, queued=2, ears=ears)
        first = await occupied(model, batcher)
        two = [start(batcher.submit(n, session_id=n, remaining_ms=1000)) for n in "ab"]
        await settle()
        with pytest.raises(StageOverloadedError, match="2 calls waiting") as refused:
            await batcher.submit("c", session_id="c", remaining_ms=1000)
        assert refused.value.retryable and ears.drops == ["overloaded"]
        open_gate(model)
        await asyncio.gather(first, *two)
        assert await batcher.submit("c", session_id="c", remaining_ms=1000) == "C"

    asyncio.run(go())


def test_closing_fails_everyone_who_waits() -> None:
    async def go() -> None:
        model = Model()
        batcher = make(model)
        first = await occupied(model, batcher)
        waiting = start(batcher.submit("w", session_id="w", remaining_ms=1000))
        await settle()
        await batcher.close()
        for task in (first, waiting):
            with pytest.raises(StageFailedError, match="shutting down"):
                await task
        assert batcher.queued == 0

    asyncio.run(go())


def test_errors_survive_the_way_between_processes() -> None:
    import pickle  # the transport between replicas pickles; this is what it does to errors

    for error in (
        DeadlineExceededError("renderer", 80.0),
        StageOverloadedError("renderer", 7),
        StaleEpochError("s", 1, 2),
        StageFailedError("renderer", "why"),
    ):
        back = pickle.loads(pickle.dumps(error))  # noqa: S301
        assert str(back) == str(error) and type(back) is type(error) and back.args == error.args
