"""When a session's client is told that pictures come too late."""

from __future__ import annotations

import asyncio

import pytest

from pipeline.live.picture_quality import PictureQuality, Quality
from tests.support.live import FakeClock, LiveFakeStages, live, tone


@pytest.mark.parametrize("fps", [25, 50])
def test_it_is_said_once_at_15_percent_and_taken_back_when_two_seconds_were_whole(fps: int) -> None:
    quality = PictureQuality(fps)
    needed = -(-15 * 2 * fps // 100)
    assert [quality.note(True) for _ in range(needed)] == [None] * (needed - 1) + [Quality.REDUCED]
    assert [quality.note(True) for _ in range(3)] == [None] * 3, "said once"
    found = [quality.note(False) for _ in range(3 * fps)]
    assert found.index(Quality.FULL) == 2 * fps - 1, "when the last late picture is two seconds ago"
    assert [one for one in found if one] == [Quality.FULL]


def test_a_late_picture_now_and_then_is_not_worth_a_word() -> None:
    quality = PictureQuality(25)
    assert not any(quality.note(tick % 10 == 0) for tick in range(500))
    assert quality.now is Quality.FULL


def test_the_client_of_a_stage_that_stalls_is_told_and_told_again_when_it_is_over() -> None:
    async def scene() -> None:
        clock = FakeClock()
        stages = LiveFakeStages(clock)
        async with live(stages=stages) as stage:
            stage.session.voice.speak(tone(12.0))
            await clock.advance(2.0)
            assert not stage.sink.named("quality")
            stages.stalled_until["renderer"] = clock.now() + 2.0
            await clock.advance(2.0)
            assert [event.detail for event in stage.sink.named("quality")] == ["reduced"]
            assert stage.session.stats().quality == "reduced"
            await clock.advance(6.0)
            assert [event.detail for event in stage.sink.named("quality")] == ["reduced", "full"]
            assert stage.session.stats().quality == "full"

    asyncio.run(scene())


def test_a_face_that_idles_because_nobody_draws_it_is_no_full_quality() -> None:
    quality = PictureQuality(25)
    assert quality.note(False, away_s=2.4) is None
    assert quality.note(False, away_s=2.5) is Quality.WAITING
    assert not any(quality.note(False, away_s=10.0) for _ in range(100)), "idle pictures are never late"
    assert quality.note(True) is Quality.REDUCED, "an answer came, and not every picture yet"
    assert Quality.FULL in [quality.note(False) for _ in range(50)]


@pytest.mark.parametrize("way", ["stalls", "fails"])
def test_the_client_of_a_session_that_waits_for_a_set_is_told_until_it_has_one(way: str) -> None:
    async def scene() -> None:
        clock = FakeClock()
        stages = LiveFakeStages(clock)
        async with live(stages=stages) as stage:
            stage.session.voice.speak(tone(30.0))
            await clock.advance(2.0)
            if way == "stalls":
                stages.stalled_until["renderer"] = clock.now() + 9.0
            else:
                stages.broken.add("renderer")
            await clock.advance(8.0)
            assert [event.detail for event in stage.sink.named("quality")] == ["reduced", "waiting"]
            assert stage.session.stats().quality == "waiting"
            stages.broken.discard("renderer")
            await clock.advance(8.0)
            assert stage.sink.named("quality")[-1].detail == "full"

    asyncio.run(scene())
