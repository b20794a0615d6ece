"""Simulated time, GPUs that are shared, batches: by hand-made cases whose answers are arithmetic."""

from __future__ import annotations

import pytest

from benchmarks.cluster_model.engine import Chunk, Events, Gpu, Replica


def test_processes_share_a_gpu_and_pay_for_it() -> None:
    events, ended = Events(), {}
    gpu = Gpu(events, switching=0.8)
    gpu.work(1, 1.0, lambda: ended.update(first=events.now))
    events.at(0.5, lambda: gpu.work(2, 0.2, lambda: ended.update(second=events.now)))
    events.run(10.0)
    assert ended["second"] == pytest.approx(0.5 + 0.2 / 0.4), "two at 0.4 each"
    assert ended["first"] == pytest.approx(1.0 + 0.5 - 0.2), "what it had not done in that time comes later"
    assert gpu.busy_s == pytest.approx(1.3)


def replica(events: Events, batch: int = 4, host_ms: float = 0.0, gather_s: float = 0.0) -> tuple[Replica, list[int]]:
    sizes: list[int] = []

    def cost_ms(chunks: list[Chunk]) -> float:
        sizes.append(len(chunks))
        return 10.0

    return Replica(events, Gpu(events, 1.0), 0, cost_ms, batch, host_ms, gather_s), sizes


def test_a_batch_has_one_chunk_of_a_session_most_urgent_first() -> None:
    events, order = Events(), list[str]()
    stage, sizes = replica(events, batch=2)
    for session, due in ((0, 9.0), (1, 3.0), (1, 2.5), (2, 1.0), (3, 2.0)):
        name = f"{session} due {due}"
        stage.submit(Chunk(session, 5, due, lambda name=name: order.append(name)))  # type: ignore[misc]
    events.run(1.0)
    assert sizes == [1, 2, 1, 1]
    assert order == ["0 due 9.0", "2 due 1.0", "3 due 2.0", "1 due 2.5", "1 due 3.0"]
    assert stage.in_flight == 0 and stage.chunks == 5


def test_time_that_the_host_takes_stands_between_batches() -> None:
    events, ends = Events(), list[float]()
    stage, _ = replica(events, batch=1, host_ms=2.0)
    for session in range(2):
        stage.submit(Chunk(session, 5, 1.0, lambda: ends.append(round(events.now, 6))))
    events.run(1.0)
    assert ends == [0.02, 0.04]


def test_a_batch_waits_for_active_sessions_and_no_longer_than_it_may() -> None:
    events, ends = Events(), list[float]()
    stage, sizes = replica(events, batch=16, gather_s=0.03)
    for session in range(5):
        events.at(0.2 * session, lambda s=session: stage.submit(Chunk(s, 5, 9.0, lambda: None)))  # type: ignore[misc]
    events.run(0.95)
    sizes.clear()
    for session, at in ((0, 1.0), (1, 1.01), (2, 1.08)):
        chunk = Chunk(session, 5, 9.0, lambda: ends.append(round(events.now, 6)))
        events.at(at, lambda c=chunk: stage.submit(c))  # type: ignore[misc]
    events.run(2.0)
    assert sizes == [2, 1] and ends == [1.04, 1.04, 1.12]
