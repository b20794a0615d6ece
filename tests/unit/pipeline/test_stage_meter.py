"""The meter of stage calls: counts, times, failures, and what admission is told."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import numpy as np
import pytest

from pipeline.mini.motion_diffusion import MotionCarry
from pipeline.stage_meter import CallTimes, StageMeter
from pipeline.stages import RenderRequest, RifeRequest
from pipeline.types import MotionChunk
from tests.support.fake_stages import FakeStages
from tests.support.live import BrokenStageError
from tests.support.manual_clock import ManualClock


class Slow(FakeStages):
    """Every call moves the clock, and fails where it must."""

    clock = ManualClock(50.0)
    broken = False

    async def audio_features(self, window: Any, first_row: int) -> Any:
        self.clock.now += 0.03
        if self.broken:
            raise BrokenStageError("audio_features")
        return await super().audio_features(window, first_row)

    async def renderer(self, request: RenderRequest) -> Any:
        self.clock.now += 0.1
        return await super().renderer(request)

    async def rife(self, *args: Any) -> Any:
        self.clock.now += 0.2
        return await super().rife(*args)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def request(frames: int, first: int = 0) -> RenderRequest:
    return RenderRequest("a" * 32, MotionChunk(np.zeros((frames, 265), np.float32), first), None, 25, "bt709")


@pytest.fixture
def slow() -> Slow:
    stages = Slow()
    stages.clock = ManualClock(50.0)
    return stages


def window(stages: Slow) -> np.ndarray:
    info = stages.info
    return np.zeros(info.context_samples + info.hop_frames * 640 + info.lookahead_samples, np.float32)


def test_calls_are_counted_and_timed(slow: Slow) -> None:
    meter = StageMeter(slow, slow.clock)
    rows = run(meter.audio_features(window(slow), 0))
    run(
        meter.motion_diffusion(rows, MotionCarry(np.zeros((1, 265), np.float32), np.zeros((0, 0), np.float32), 0, 0, 1))
    )
    for _ in range(3):
        run(meter.renderer(request(4)))
    assert meter.calls == {"audio_features": 1, "motion_diffusion": 1, "renderer": 3} and not meter.failures
    assert meter.times.percentiles_ms()["renderer"] == pytest.approx((100, 100))
    assert meter.times.chain_s() == pytest.approx(0.13), "the slow quarter of every stage, summed"
    assert meter.waiting_s == 0 and meter.info is slow.info


def test_admission_is_told_what_pictures_took_and_how_long_they_are_shown(slow: Slow) -> None:
    told: list[tuple[float, float]] = []
    meter = StageMeter(slow, slow.clock, lambda took_s, lasts_s: told.append((took_s, lasts_s)))
    run(meter.audio_features(window(slow), 0))
    assert not told, "other stages make no pictures"
    run(meter.renderer(request(8)))
    assert told == [pytest.approx((0.1, 0.32))]
    first = meter.crops(request(4))
    run(meter.rife(RifeRequest(50, "bt709"), meter.crops(request(4, 4)), first))
    assert told[1:] == [pytest.approx((0.2, 0.16))], "eight pictures at 50 frames/s"
    assert meter.calls == {"audio_features": 1, "renderer": 3, "rife": 1}


def test_failures_in_a_row_are_one_series_that_a_success_ends(slow: Slow) -> None:
    meter, clock, told = StageMeter(slow, slow.clock), slow.clock, []
    slow.broken = True
    for _ in range(3):
        with pytest.raises(BrokenStageError):
            run(meter.audio_features(window(slow), 0))
        clock.now += 4.0
    assert meter.failing_s == pytest.approx(2 * 4.03) and meter.failures == {"audio_features": 3}
    clock.now += 11.0
    meter.failed("audio_features")
    assert meter.failing_s == 0, "a later one begins a new series"
    clock.now += 5.0
    meter.failed("audio_features")
    assert meter.failing_s == pytest.approx(5.0)
    slow.broken = False
    run(meter.audio_features(window(slow), 0))
    assert meter.failing_s == 0 and meter.calls["audio_features"] == 4 and not told


def test_a_call_in_work_is_waited_for_until_it_is_cancelled(slow: Slow) -> None:
    async def scene() -> None:
        slow.render_gate = asyncio.Event()
        meter = StageMeter(slow, slow.clock)
        call = asyncio.create_task(meter.renderer(request(4)))
        await slow.announced.wait()
        slow.clock.now += 3.0
        assert meter.waiting_s == pytest.approx(3.1)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert meter.waiting_s == 0 and not meter.failures and not meter.times.percentiles_ms()

    run(scene())


def test_one_stall_says_nothing_and_what_is_long_past_is_forgotten() -> None:
    times = CallTimes()
    assert times.chain_s() == 0
    for seconds in [0.02] * 20 + [5.0]:
        times.add("renderer", seconds)
    assert times.chain_s() == pytest.approx(0.02)
    for _ in range(24):
        times.add("renderer", 0.04)
    assert times.chain_s() == pytest.approx(0.04)
    times.add("other", 9.0)
    assert times.chain_s() == pytest.approx(0.04), "only stages of the chain count"


def test_times_of_all_sessions_stand_in_until_one_has_spoken_itself(slow: Slow) -> None:
    together = CallTimes()
    first, second = (StageMeter(slow, slow.clock, all_sessions=together) for _ in range(2))
    assert not second.times.known and second.times.chain_s() == 0
    run(first.renderer(request(4)))
    assert not second.times.known, "drawing alone says nothing of how long speech takes"
    run(first.audio_features(window(slow), 0))
    assert second.times.known and second.times.chain_s() == pytest.approx(0.13)
    second.times.add("audio_features", 0.5)
    assert second.times.chain_s() == pytest.approx(0.5), "its own count from now on"
