"""Whatever people and machines do, in any order: the clock goes on, every utterance ends once, and nothing is left behind."""

from __future__ import annotations

import asyncio
from collections import Counter

import numpy as np
import pytest

from pipeline.live.contracts import Drive, LiveState
from tests.support.live import FakeClock, LiveFakeStages, Stage, heard_at_48_khz, live, spoken_frame, tone

STAGES = ("audio_features", "motion_diffusion", "renderer")


async def disturb(stage: Stage, rng: np.random.Generator) -> None:
    """Something happens to the stages."""
    stages = stage.stages
    name = STAGES[rng.integers(3)]
    kind = rng.integers(6)
    if kind == 0:
        stages.stalled_until[name] = stage.clock.now() + rng.uniform(0.1, 1.5)
    elif kind == 1:
        stages.broken.add(name)
    elif kind == 2:
        stages.latency_s[name] = rng.uniform(0.0, 0.12)
    elif kind == 3:
        stage.clock.jump(rng.uniform(0.05, 3.0))
    else:
        stages.broken.clear()
        stages.latency_s.clear()


def heal(stage: Stage, rng: np.random.Generator) -> None:
    """No stage stays broken for long."""
    if rng.random() < 0.5:
        stage.stages.broken.clear()


def check(stage: Stage, fps: int) -> None:
    videos, voices, events = stage.sink.videos, stage.sink.voices, stage.sink.events
    assert [tick.index for tick in videos] == list(range(len(videos)))
    assert [voice.pts_samples for voice in voices] == [i * 16_000 // fps for i in range(len(voices))]
    assert all(len(voice.pcm) == 16_000 // fps and voice.pcm.dtype == np.float32 for voice in voices)
    wrong = [t.index for t in videos if (f := spoken_frame(t)) is not None and f * fps / 25 != t.index]
    assert not wrong, "a picture is shown at its own time or not at all"
    started = Counter(event.utterance_id for event in events if event.name == "speaking_started")
    finished = Counter(event.utterance_id for event in events if event.name == "speaking_finished")
    assert set(started.values()) <= {1} and set(finished.values()) <= {1} and set(started) <= set(finished)
    speaking: str | None = None
    for event in events:
        if event.name == "speaking_started":
            assert speaking is None, "two at a time"
            speaking = event.utterance_id
        elif event.name == "speaking_finished" and event.utterance_id == speaking:
            speaking = None
    assert [event.epoch for event in events] == sorted(event.epoch for event in events)


@pytest.mark.parametrize(("seed", "fps"), [(0, 25), (1, 25), (2, 25), (3, 50), (4, 50)])
def test_a_pushed_session_survives_anything(seed: int, fps: int) -> None:
    async def scene() -> None:
        rng = np.random.default_rng(seed)
        clock = FakeClock()
        async with live(fps=fps, stages=LiveFakeStages(clock), warm=seed % 2 == 0) as stage:
            session, accepted = stage.session, set()
            for _ in range(40):
                kind = rng.integers(8)
                heal(stage, rng)
                if kind < 2:
                    accepted.add(session.voice.speak(tone(rng.uniform(0.01, 1.5))))
                elif kind < 4:
                    for _ in range(rng.integers(1, 12)):
                        accepted.add(session.voice.push(tone(rng.uniform(0.005, 0.2))))
                        await clock.advance(rng.uniform(0.0, 0.15))
                elif kind == 4:
                    session.voice.finish()
                elif kind == 5:
                    before = session.epoch
                    answer = session.interrupt()
                    assert session.epoch - before == (answer.utterance_id is not None)
                else:
                    await disturb(stage, rng)
                await clock.advance(rng.exponential(0.3))
                assert not stage.task.done(), stage.sink.named("error")
            stage.stages.broken.clear()
            stage.stages.latency_s.clear()
            session.voice.finish()
            await clock.advance(20.0)
            check(stage, fps)
            assert session.state is LiveState.IDLE and stage.stages.in_flight == 0
            assert {event.utterance_id for event in stage.sink.named("speaking_finished")} == accepted
            whole = [e.position_s or 0.0 for e in stage.sink.named("speaking_finished")]
            assert sum(whole) == pytest.approx(np.count_nonzero(stage.sink.heard()) / 16_000, abs=0.02)
            videos = len(stage.sink.videos)
            session.voice.speak(tone(2.0))
            await clock.advance(4.0)
            assert sum(spoken_frame(t) is not None for t in stage.sink.videos[videos:]) >= 50 * fps // 25

    asyncio.run(scene())


@pytest.mark.parametrize("seed", range(3))
def test_a_microphone_session_survives_anything(seed: int) -> None:
    async def scene() -> None:
        rng = np.random.default_rng(seed)
        clock = FakeClock()
        async with live(Drive.MIC, stages=LiveFakeStages(clock)) as stage:
            session = stage.session
            for _ in range(40):
                kind = rng.integers(7)
                heal(stage, rng)
                seconds = rng.uniform(0.05, 1.2)
                if kind < 3:
                    await stage.speak_into_microphone(tone(seconds), int(rng.integers(50, 700)))
                elif kind == 3:
                    await stage.speak_into_microphone(np.zeros(int(seconds * 16_000), np.float32))
                elif kind == 4:
                    session.interrupt()
                elif kind == 5:  # the network pauses and then everything comes at once
                    await clock.advance(seconds)
                    stage.hand_over(heard_at_48_khz(tone(seconds * rng.uniform(0.0, 1.5))))
                else:
                    await disturb(stage, rng)
                assert not stage.task.done(), stage.sink.named("error")
            stage.stages.broken.clear()
            stage.stages.latency_s.clear()
            await stage.speak_into_microphone(np.zeros(64_000, np.float32))
            check(stage, 25)
            assert session.state is LiveState.IDLE and stage.stages.in_flight == 0
            assert session.stats().queue_depths["speech_ms"] <= 1400
            videos = len(stage.sink.videos)
            await stage.speak_into_microphone(tone(2.0))
            await stage.speak_into_microphone(np.zeros(16_000, np.float32))
            assert sum(spoken_frame(t) is not None for t in stage.sink.videos[videos:]) >= 48

    asyncio.run(scene())
