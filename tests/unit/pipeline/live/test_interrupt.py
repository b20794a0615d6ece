"""Interruptions: sound and mouth stop at once, the position is exact to the sample, and what comes next is not touched."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import numpy as np
import pytest

from pipeline.live.contracts import Drive, LiveState
from tests.support.live import SPOKEN_FROM, FakeClock, LiveFakeStages, live, mark_of, settle, spoken_frame, tone


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


@pytest.mark.parametrize("fps", [25, 50])
@pytest.mark.parametrize("after", [0.5, 0.513, 1.27, 2.9])
def test_sound_ends_with_the_next_tick_and_the_position_is_exact(fps: int, after: float) -> None:
    async def scene() -> None:
        async with live(fps=fps) as stage:
            await stage.clock.advance(1.0)
            utterance = stage.session.voice.speak(tone(3.0) + 0.01)
            await stage.clock.advance(after)
            ticks = len(stage.sink.voices)
            answer = stage.session.interrupt()
            await stage.clock.advance(2.0)
            heard = stage.sink.heard()
            loud = np.flatnonzero(heard)
            assert loud[-1] + 1 - ticks * 16_000 // fps <= 160, "no more than a fade of 10 ms in the next tick"
            sent = loud[-1] + 1 - loud[0]
            assert answer.utterance_id == utterance and answer.epoch == 1
            assert answer.position_s * 16_000 == pytest.approx(sent, abs=1)  # the last sample of a fade may be 0
            assert np.abs(np.diff(heard[loud[-1] - 400 :])).max() < 0.1, "it does not click"
            (finished,) = stage.sink.named("speaking_finished")
            assert finished.interrupted and finished.position_s == answer.position_s
            assert [event.name for event in stage.sink.events[-3:]] == [
                "speaking_started",
                "interrupted",
                "speaking_finished",
            ]
            assert stage.session.state is LiveState.IDLE and stage.session.stats().interruptions == 1
            assert not any(voice.speech for voice in stage.sink.voices[ticks + 1 :])

    run(scene())


@pytest.mark.parametrize("fps", [25, 50])
def test_the_mouth_is_held_for_some_frames_and_then_fades_into_the_loop(fps: int) -> None:
    async def scene() -> None:
        clock = FakeClock()
        stages = LiveFakeStages(clock, latency_s={"renderer": 0.03, "motion_diffusion": 0.01})
        async with live(fps=fps, stages=stages) as stage:
            await clock.advance(1.0)
            stage.session.voice.speak(tone(3.0))
            await clock.advance(1.0)
            ticks = len(stage.sink.videos)
            last = spoken_frame(stage.sink.videos[-1])
            assert last is not None
            stage.session.interrupt()
            await clock.advance(2.0)
            after = stage.sink.videos[ticks:]
            marks = [mark_of(tick) for tick in after]
            held = next(i for i, mark in enumerate(marks) if mark is not None)
            assert 1 <= held <= 6 * fps // 25 and not any(tick.late for tick in after)
            first = marks[held]
            assert first is not None and first < SPOKEN_FROM + last
            fading = [mark for mark in marks[held:] if mark]
            assert fading == sorted(fading, reverse=True) and len(fading) <= 4 * fps // 25
            assert not any(spoken_frame(tick) for tick in after), "nothing stale is shown"

    run(scene())


def test_what_is_in_work_is_cancelled_and_queued_speech_is_gone() -> None:
    async def scene() -> None:
        clock = FakeClock()
        stages = LiveFakeStages(clock, latency_s={"motion_diffusion": 0.05, "renderer": 0.2})
        async with live(stages=stages) as stage:
            ids = [stage.session.voice.speak(tone(2.0)) for _ in range(5)]
            await clock.advance(1.0)
            assert stages.in_flight
            first = stage.session.interrupt()
            await settle()
            assert stages.cancelled >= 1 and first.utterance_id == ids[0] and first.position_s > 0
            finished = stage.sink.named("speaking_finished")
            assert [event.utterance_id for event in finished] == ids, "each one ends exactly once"
            assert [event.position_s for event in finished[1:]] == [0.0] * 4
            for _ in range(2):
                again = stage.session.interrupt()
                assert (again.position_s, again.utterance_id, again.epoch) == (0.0, None, 1)
            hops = len(stages.hops)
            await clock.advance(5.0)
            assert len(stages.hops) == hops and len(stage.sink.named("speaking_finished")) == 5
            assert len(stage.sink.named("interrupted")) == 1

    run(scene())


@pytest.mark.parametrize("after", [0.0, 0.02, 0.1, 0.17])
def test_before_the_first_sound_nothing_is_heard_at_all(after: float) -> None:
    async def scene() -> None:
        clock = FakeClock()
        stages = LiveFakeStages(clock, latency_s={"motion_diffusion": 0.02, "renderer": 0.02})
        async with live(stages=stages) as stage:
            await clock.advance(1.0)
            utterance = stage.session.voice.speak(tone(2.0))
            await clock.advance(after)
            answer = stage.session.interrupt()
            assert (answer.position_s, answer.utterance_id, answer.epoch) == (0.0, utterance, 1)
            await clock.advance(3.0)
            assert not stage.sink.heard().any() and not any(voice.speech for voice in stage.sink.voices)
            assert not stage.sink.named("speaking_started")
            (finished,) = stage.sink.named("speaking_finished")
            assert finished.position_s == 0.0 and finished.interrupted
            assert [mark for tick in stage.sink.videos[-20:] if (mark := mark_of(tick))] == []

    run(scene())


@pytest.mark.parametrize("pause", [0.0, 0.04, 0.3])
def test_new_speech_right_after_an_interruption_is_whole(pause: float) -> None:
    async def scene() -> None:
        async with live() as stage:
            await stage.clock.advance(1.0)
            stage.session.voice.speak(tone(3.0))
            await stage.clock.advance(1.0)
            stage.session.interrupt()
            await stage.clock.advance(pause)
            before = len(stage.sink.heard())
            pcm = 0.2 * np.sign(tone(1.0) + 0.001).astype(np.float32)
            utterance = stage.session.voice.speak(pcm)
            await stage.clock.advance(3.0)
            heard = stage.sink.heard()[before + 640 :]
            loud = np.flatnonzero(heard)
            np.testing.assert_array_equal(heard[loud[0] : loud[-1] + 1], pcm)
            assert loud[0] <= 0.3 * 16_000
            assert stage.sink.events[-1].utterance_id == utterance and stage.sink.events[-1].position_s == 1.0
            assert stage.sink.events[-1].epoch == 1
            shown = [tick.index for tick in stage.sink.videos if (frame := spoken_frame(tick)) and frame == tick.index]
            assert set(range(int((before + 640 + loud[0]) // 640), shown[-1])) <= set(shown)

    run(scene())


def test_interrupting_at_every_tick_of_a_sentence_never_shows_a_stale_picture() -> None:
    async def scene() -> None:
        clock = FakeClock()
        stages = LiveFakeStages(clock, latency_s={"motion_diffusion": 0.015, "renderer": 0.025})
        async with live(stages=stages) as stage:
            for step in range(30):
                stage.session.voice.speak(tone(1.5))
                await clock.advance(0.11 + 0.04 * step)
                ticks = len(stage.sink.videos)
                stage.session.interrupt()
                await clock.advance(0.5)
                assert not any(spoken_frame(tick) for tick in stage.sink.videos[ticks:])
            assert stage.session.epoch == 30 and stages.in_flight == 0

    run(scene())


def test_an_interrupted_microphone_rests_until_it_is_quiet() -> None:
    async def scene() -> None:
        async with live(Drive.MIC) as stage:
            await stage.speak_into_microphone(np.zeros(8000, np.float32))
            await stage.speak_into_microphone(tone(1.5))
            assert stage.session.state is LiveState.SPEAKING
            answer = stage.session.interrupt()
            ticks = len(stage.sink.voices)
            assert 0.9 < answer.position_s < 1.4
            await stage.speak_into_microphone(tone(0.8))
            await stage.speak_into_microphone(np.zeros(16_000, np.float32))
            assert not any(voice.pcm.any() for voice in stage.sink.voices[ticks + 1 :]), "the rest of the sentence"
            await stage.speak_into_microphone(tone(1.0))
            await stage.speak_into_microphone(np.zeros(16_000, np.float32))
            names = [event.name for event in stage.sink.events[1:]]
            assert names == [
                "speaking_started",
                "interrupted",
                "speaking_finished",
                "speaking_started",
                "speaking_finished",
            ]
            assert stage.session.interrupt().utterance_id is None

    run(scene())
