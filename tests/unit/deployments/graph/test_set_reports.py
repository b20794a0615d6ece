"""Reports of stage replicas, from their counters."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("ray.serve")

from ray.exceptions import ActorDiedError, RayError

from deployments.graph import set_reports
from deployments.graph.calls import Distribution, StageStats
from deployments.graph.errors import NotReadyError
from deployments.graph.session_cost import MeasuredCost
from deployments.graph.set_reports import MEASURED_OVER_S, SetReports, percentile_between
from deployments.host.stage_set import StageReport
from tests.support.manual_clock import ManualClock

ENDS = (10.0, 80.0, 160.0)
IDLE = StageStats("renderer", "r", 0, 0, 0, 0, 0, wait_ms=Distribution(ENDS, (0, 0, 0, 0)))


def counted(frames: int, busy_ms: float) -> StageStats:
    return replace(IDLE, frames=frames, batch_ms=Distribution((1.0,), (1, 0), busy_ms))


def reports(clock: ManualClock, **more: bool) -> SetReports:
    return SetReports("node", "renderer", 3.0, on_gpu=more.get("on_gpu", True), clock=clock)


@pytest.mark.parametrize(
    "trouble", [ActorDiedError(), RayError("the pool cannot read this report"), NotReadyError("pool")]
)
def test_a_pool_in_trouble_gets_the_next_report(monkeypatch: pytest.MonkeyPatch, trouble: Exception) -> None:
    asked: list[str] = []

    async def report(told: object) -> None:
        if len(asked) == 1:
            raise trouble
        raise asyncio.CancelledError  # the replica ends

    def pool_of(app: str) -> object:
        asked.append(app)
        return SimpleNamespace(report=SimpleNamespace(remote=report))

    context = SimpleNamespace(app_name="app")
    monkeypatch.setattr(set_reports, "serve", SimpleNamespace(get_replica_context=lambda: context))
    monkeypatch.setattr(set_reports, "pool_of", pool_of)
    monkeypatch.setattr(set_reports, "REPORT_S", 0.0)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(set_reports._tell_the_pool(reports(ManualClock()), lambda: IDLE, lambda: 1, None))
    assert asked == ["app", "app"]


def test_the_first_report_is_what_was_measured_at_the_start() -> None:
    cost = reports(ManualClock()).next(IDLE).cost
    assert (cost.thread_ms, cost.gpu_ms) == (75.0, 75.0)


def test_a_stage_on_a_cpu_takes_no_gpu() -> None:
    cost = reports(ManualClock(), on_gpu=False).next(IDLE).cost
    assert (cost.thread_ms, cost.gpu_ms) == (75.0, 0.0)


def test_a_replica_is_measured_again_once_its_neighbours_are_up() -> None:
    clock = ManualClock()
    found = reports(clock)
    assert not found.stale()
    clock.now = 20.0
    assert found.stale()
    found.sampled_again(2.0)
    assert found.next(IDLE).cost.thread_ms == 50.0 and not found.stale()
    clock.now = 40.0
    assert found.stale()
    found.sampled_again(None)
    clock.now = 80.0
    found.sampled_again(3.0)
    cost = found.next(IDLE).cost
    assert cost.thread_ms == 75.0, "the newest guess counts, also where it is more"
    assert cost.gpu_ms == 50.0, "others only make it slower: the least is what the GPU needs"
    clock.now = 1000.0
    assert not found.stale()


def test_under_load_a_stage_takes_its_thread_as_long_as_it_takes_and_the_gpu_as_long_as_it_did_alone() -> None:
    clock = ManualClock()
    found = reports(clock)
    found.next(IDLE)
    clock.now = MEASURED_OVER_S
    cost = found.next(counted(frames=3000, busy_ms=15_000.0)).cost
    assert (cost.thread_ms, cost.gpu_ms) == (125.0, 75.0)


def test_a_stage_on_a_cpu_is_never_measured_again() -> None:
    clock = ManualClock()
    found = reports(clock, on_gpu=False)
    clock.now = 100.0
    assert not found.stale()


def test_once_load_was_measured_a_guess_changes_nothing() -> None:
    cost = MeasuredCost(100.0)
    cost.measured(60.0, 30.0)
    cost.guessed_again(10.0)
    assert cost.value == 60.0


def test_a_measurement_that_fails_does_not_end_the_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []
    clock = ManualClock()
    found = reports(clock)
    clock.now = 20.0

    async def report(one: StageReport) -> None:
        told.append(one.cost.thread_ms)
        raise asyncio.CancelledError  # the replica ends

    async def when_idle(work: object) -> float:
        raise RuntimeError("the device is lost")

    context = SimpleNamespace(app_name="app")
    pool = SimpleNamespace(report=SimpleNamespace(remote=report))
    monkeypatch.setattr(set_reports, "serve", SimpleNamespace(get_replica_context=lambda: context))
    monkeypatch.setattr(set_reports, "pool_of", lambda app: pool)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(set_reports._tell_the_pool(found, lambda: IDLE, lambda: 1, when_idle))
    assert told == [75.0]


def test_a_busy_stretch_refines_the_cost() -> None:
    clock = ManualClock()
    found = reports(clock)
    found.next(IDLE)
    clock.now = MEASURED_OVER_S
    busy = counted(frames=6000, busy_ms=24_000.0)  # 4 ms a frame
    assert found.next(busy).cost.thread_ms == 100.0
    clock.now = 2 * MEASURED_OVER_S
    lighter = replace(busy, frames=16_000, batch_ms=Distribution((1.0,), (2, 0), 44_000.0))  # 2 ms a frame
    assert found.next(lighter).cost.thread_ms == pytest.approx(100.0 * 0.98**0.5)


@pytest.mark.parametrize("stats", [counted(6000, 6000.0), counted(0, 24_000.0)])
def test_a_quiet_stretch_says_nothing(stats: StageStats) -> None:
    clock = ManualClock()
    found = reports(clock)
    found.next(IDLE)
    clock.now = MEASURED_OVER_S
    assert found.next(stats).cost.thread_ms == 75.0


def test_waits_are_those_since_the_last_report() -> None:
    found = reports(ManualClock())
    late = Distribution(ENDS, (1, 0, 9, 0))
    assert found.next(replace(IDLE, wait_ms=late)).wait_ms == 160.0
    assert found.next(replace(IDLE, wait_ms=late)).wait_ms == 0.0
    assert found.next(replace(IDLE, wait_ms=Distribution(ENDS, (101, 0, 9, 0)))).wait_ms == 10.0


def test_a_percentile_beyond_the_last_range_is_infinite() -> None:
    assert percentile_between(Distribution(), Distribution(ENDS, (0, 0, 0, 3))) == float("inf")
    assert percentile_between(Distribution(), Distribution()) == 0.0


def test_prepared_avatars_travel_along() -> None:
    assert reports(ManualClock()).next(replace(IDLE, warm=("a", "b"))).avatars == {"a", "b"}
