"""Stages that stall, fail, die or are too slow: clock and voice go on, the picture holds at most a second and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import numpy as np
import pytest

from pipeline.live.contracts import Drive, EndReason, VideoTick
from pipeline.live.settings import LiveSettings
from tests.support.live import (
    MARK,
    SPOKEN_FROM,
    FakeClock,
    LiveFakeStages,
    Stage,
    live,
    mark_of,
    settle,
    spoken_frame,
    tone,
)

STAGES = ("audio_features", "motion_diffusion", "renderer")


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


def longest_hold(videos: list[VideoTick]) -> int:
    """Ticks in a row for which a picture was due and had not come."""
    longest = length = 0
    for tick in videos:
        length = length + 1 if tick.late else 0
        longest = max(longest, length)
    return longest


def fresh(videos: list[VideoTick]) -> list[int]:
    """Ticks that show speech of their own time."""
    return [tick.index for tick in videos if spoken_frame(tick) == tick.index]


async def talk(stage: Stage, drive: Drive, seconds: float) -> None:
    if drive is Drive.MIC:
        await stage.speak_into_microphone(tone(seconds))
    else:
        await stage.clock.advance(seconds)


@pytest.mark.parametrize("drive", list(Drive))
@pytest.mark.parametrize("name", STAGES)
@pytest.mark.parametrize("stall_s", [0.3, 0.9, 2.0])
def test_a_stall_recovers_within_a_second(drive: Drive, name: str, stall_s: float) -> None:
    async def scene() -> None:
        clock = FakeClock()
        stages = LiveFakeStages(clock, latency_s={"motion_diffusion": 0.01, "renderer": 0.02})
        async with live(drive, stages=stages) as stage:
            await clock.advance(1.0)
            if drive is not Drive.MIC:
                stage.session.voice.speak(tone(9.0))
            await talk(stage, drive, 2.0)
            stages.stalled_until[name] = clock.now() + stall_s
            begin = len(stage.sink.videos)
            await talk(stage, drive, stall_s)
            over = len(stage.sink.videos)
            requests = len(stages.requests)
            await talk(stage, drive, 3.0)
            assert longest_hold(stage.sink.videos) <= 25
            back = [index for index in fresh(stage.sink.videos) if index >= over]
            assert back and back[0] - over <= 12, "at its own time again in half a second"
            assert set(range(over + 25, over + 70)) <= set(back), "and every frame after a second"
            drawn = [float(request.motion.motion[-1, MARK]) for request in stages.requests[requests + 3 :]]
            late = [mark for mark in drawn if SPOKEN_FROM <= mark < SPOKEN_FROM + over - 2]
            assert not late, "nothing is drawn for times that have passed"
            voices = stage.sink.voices[begin:]
            assert all(voice.pcm.any() for voice in voices), "the voice goes on"
            assert [tick.index for tick in stage.sink.videos] == list(range(len(stage.sink.videos)))
            assert not stage.task.done()

    run(scene())


@pytest.mark.parametrize("name", STAGES)
def test_errors_hold_the_picture_for_a_second_at_most_and_speech_returns(name: str) -> None:
    async def scene() -> None:
        clock = FakeClock()
        async with live(stages=LiveFakeStages(clock)) as stage:
            stage.session.voice.speak(tone(12.0))
            await clock.advance(2.0)
            stage.stages.broken.add(name)
            broken = len(stage.sink.videos)
            await clock.advance(4.0)
            assert longest_hold(stage.sink.videos) <= 25
            shown = stage.sink.videos[broken + 50 :]
            assert all(tick.rect is not None or mark_of(tick) is None for tick in shown)
            assert not fresh(shown) and sum(tick.rect is not None for tick in shown) > 40, "the loop lives on"
            stage.stages.broken.clear()
            whole = len(stage.sink.videos)
            await clock.advance(3.0)
            assert set(range(whole + 15, whole + 70)) <= set(fresh(stage.sink.videos))
            stats = stage.session.stats()
            assert stats.stage_failures[name] >= 1 and not stage.task.done()
            assert sum(stats.stage_failures.values()) < 60, "not asked again and again"

    run(scene())


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_that_stays_dead_ends_the_session(name: str) -> None:
    async def scene() -> None:
        clock = FakeClock()
        async with live(stages=LiveFakeStages(clock)) as stage:
            stage.session.voice.speak(tone(60.0))
            await clock.advance(2.0)
            stage.stages.broken.add(name)
            await clock.advance(28.0)
            assert not stage.task.done(), "a killed replica's successor may still be starting"
            await clock.advance(5.0)
            assert stage.task.result() is EndReason.FAILED
            (error,) = stage.sink.named("error")
            assert "stage" in error.detail
            assert stage.stages.in_flight == 0

    run(scene())


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_that_never_answers_is_given_up_and_asked_again(name: str) -> None:
    async def scene() -> None:
        clock = FakeClock()
        stages = LiveFakeStages(clock)
        async with live(stages=stages, settings=LiveSettings(stage_call_s=1.0)) as stage:
            stage.session.voice.speak(tone(60.0))
            await clock.advance(2.0)
            stages.stalled_until[name] = clock.now() + 1000
            await clock.advance(3.0)
            assert stages.cancelled >= 1 and not stage.task.done()
            stages.stalled_until.clear()
            begin = len(stage.sink.videos)
            await clock.advance(3.0)
            assert set(range(begin + 45, begin + 70)) <= set(fresh(stage.sink.videos))
            stages.stalled_until[name] = clock.now() + 1000
            await clock.advance(36.0)
            assert stage.task.result() is EndReason.FAILED

    run(scene())


def test_failures_of_the_past_do_not_end_a_session_that_idles() -> None:
    async def scene() -> None:
        clock = FakeClock()
        async with live(stages=LiveFakeStages(clock)) as stage:
            stage.stages.broken.add("renderer")
            stage.session.voice.speak(tone(1.0))
            await clock.advance(60.0)
            assert not stage.task.done()
            stage.session.voice.speak(tone(1.0))
            await clock.advance(5.0)
            assert not stage.task.done(), "two short failures far apart"
            stage.stages.broken.clear()
            begin = len(stage.sink.videos)
            stage.session.voice.speak(tone(2.0))
            await clock.advance(3.0)
            assert len([i for i in fresh(stage.sink.videos) if i >= begin]) >= 50

    run(scene())


def test_a_renderer_that_is_too_slow_drops_frames_instead_of_sliding() -> None:
    async def scene() -> None:
        clock = FakeClock()

        class Slow(LiveFakeStages):
            """Draws one frame after the other, 45 ms each: 22 frames/s."""

            free_at = 0.0

            async def _take_time(self, stage: str) -> None:
                if stage == "renderer":
                    frames = len(self.requests[-1].motion.motion)
                    self.free_at = max(self.free_at, self.clock.now()) + 0.045 * frames
                    self.latency_s[stage] = self.free_at - self.clock.now()
                await super()._take_time(stage)

        async with live(stages=Slow(clock)) as stage:
            stage.session.voice.speak(tone(20.0))
            await clock.advance(20.0)
            shown = fresh(stage.sink.videos)
            assert len(shown) > 0.8 * 490, "most frames come, each at its own time"
            assert longest_hold(stage.sink.videos) <= 12 and longest_hold(stage.sink.videos[60:]) <= 3
            stats = stage.session.stats()
            assert stats.queue_depths["renders"] <= 3 and stats.frames_repeated > 0
            wrong = [t.index for t in stage.sink.videos if spoken_frame(t) not in (None, t.index)]
            assert not wrong

    run(scene())


def test_a_loop_that_cannot_be_drawn_hurts_nobody_and_is_tried_again() -> None:
    async def scene() -> None:
        async with live(warm=False, connect=False) as stage:
            stage.loop_stages.broken.add("renderer")
            stage.session.connected()
            await stage.clock.advance(2.0)
            stage.session.voice.speak(tone(1.0))
            await stage.clock.advance(3.0)
            assert len(stage.sink.named("speaking_finished")) == 1 and not stage.task.done()
            assert any(spoken_frame(tick) for tick in stage.sink.videos)
            await settle()
            assert stage.session._loop.pictures is None
            stage.loop_stages.broken.clear()
            await stage.clock.advance(3.0)
            assert stage.session._loop.pictures is not None and stage.sink.videos[-1].rect is not None

    run(scene())


def test_a_sink_sees_every_tick_while_stages_fail() -> None:
    async def scene() -> None:
        clock = FakeClock()
        stages = LiveFakeStages(clock, broken={"motion_diffusion"})
        async with live(stages=stages) as stage:
            stage.session.voice.speak(tone(3.0))
            await clock.advance(4.0)
            assert len(stage.sink.videos) == len(stage.sink.voices) == 101
            heard = stage.sink.heard()
            assert np.count_nonzero(heard) >= 47_000

    run(scene())


def test_speech_that_was_never_seen_leaves_no_trace() -> None:
    async def scene() -> None:
        clock = FakeClock()
        async with live(stages=LiveFakeStages(clock)) as stage:
            stage.session.voice.speak(tone(4.0))
            await clock.advance(1.0)
            stage.stages.broken.add("renderer")
            await clock.advance(2.9)
            stage.stages.broken.clear()
            begin = len(stage.sink.videos)
            await clock.advance(3.0)
            marks = [mark_of(tick) for tick in stage.sink.videos[begin:]]
            spoken = [mark for mark in marks if mark is not None and mark >= SPOKEN_FROM]
            fading = [mark for mark in marks if mark is not None and 0 < mark < SPOKEN_FROM]
            assert spoken, "speech came back"
            assert len(fading) <= 4

    run(scene())
