"""Live sessions with the real stages of `mini` and the default presenter: no state change is seen as a jump."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np
import pytest

from kernels.arrays import F32
from pipeline.config import SessionSettings
from pipeline.live.contracts import Drive, EndReason, VideoTick
from pipeline.live.idle_loop import IdleLoops
from pipeline.live.loop_clock import MonotonicClock
from pipeline.live.session import LiveSession
from pipeline.live.settings import LiveSettings
from pipeline.mini.info import HOP_CHOICES
from pipeline.mini.load import load_speech_stages
from pipeline.mini.motion_diffusion import MotionCarry
from pipeline.mini.presenter import default_avatar
from pipeline.mini.renderer import Renderer
from pipeline.mini.stages import LocalStages
from pipeline.stage_meter import StageMeter
from pipeline.stages import Carry, RenderRequest, StageInfo
from pipeline.types import Avatar, FeatureRows, MotionChunk, Nv12RectBatch
from tests.support.live import FakeClock, LiveFakeStages, RecordingSink, settle


@pytest.fixture(scope="module")
def avatar() -> Avatar:
    return default_avatar()


class InlineStages(LiveFakeStages):
    """The real stages, in this thread; what they take passes on the fake clock."""

    def __init__(self, clock: FakeClock, avatar: Avatar) -> None:
        audio, motion = load_speech_stages()
        info = StageInfo(
            "mini", 8, audio.shape.left_samples, audio.shape.lookahead_samples, 25, True, hop_choices=HOP_CHOICES
        )
        super().__init__(clock, info, {"audio_features": 0.004, "motion_diffusion": 0.02, "renderer": 0.03})
        self._audio, self._motion = audio, motion
        self._draw: Callable[[RenderRequest], Nv12RectBatch] = Renderer(lambda _: avatar).render

    async def audio_features(self, window: F32, first_row: int) -> FeatureRows:
        await self._take_time("audio_features")
        return self._audio.window(window, first_row)

    async def motion_diffusion(self, rows: FeatureRows, carry: Carry) -> tuple[MotionChunk, Carry]:
        assert isinstance(carry, MotionCarry)
        await self._take_time("motion_diffusion")
        return self._motion.step(rows, carry)

    async def renderer(self, request: RenderRequest) -> Nv12RectBatch:
        await self._take_time("renderer")
        return self._draw(request)


def babble(seconds: float) -> F32:
    """Four syllables a second: harmonics of 120 Hz under two formants that move."""
    t = np.arange(round(seconds * 16_000)) / 16_000
    wave = np.zeros_like(t)
    for k in range(1, 30):
        first, second = 500 + 250 * np.sin(2 * np.pi * 2 * t), 1500 + 500 * np.sin(2 * np.pi * 1.3 * t)
        weight = np.exp(-(((120 * k - first) / 120) ** 2)) + 0.5 * np.exp(-(((120 * k - second) / 200) ** 2))
        wave += weight * np.sin(2 * np.pi * 120 * k * t)
    syllables = np.clip(np.sin(2 * np.pi * 4 * t), 0, 1) ** 0.5
    voice: F32 = (0.15 * wave * syllables).astype(np.float32)
    return voice


def steps(videos: list[VideoTick]) -> F32:
    """Mean absolute luma difference of each tick to the one before."""
    differences, before = np.zeros(len(videos), np.float32), None
    for i, tick in enumerate(videos):
        if tick.rect is not None:
            luma = tick.rect.y_plane.astype(np.int16)
            differences[i] = 0.0 if before is None else np.abs(luma - before).mean()
            before = luma
    return differences


@pytest.fixture
def quick(one_thread: None) -> LiveSettings:
    return LiveSettings(idle_loop_frames=25, stage_call_s=60)  # a slow machine is no broken stage


def test_no_state_change_jumps(avatar: Avatar, quick: LiveSettings) -> None:
    async def scene() -> None:
        clock, sink = FakeClock(), RecordingSink()
        loops, picture = IdleLoops(InlineStages(clock, avatar), quick), SessionSettings()
        session = LiveSession(
            "s",
            StageMeter(InlineStages(clock, avatar), clock.now),
            avatar,
            loops,
            sink,
            quick,
            picture,
            Drive.PUSH,
            3,
            clock,
        )
        task = asyncio.create_task(session.run())
        await settle()
        session.connected()
        await clock.advance(2.0)
        session.voice.speak(babble(1.2))
        await clock.advance(2.8)
        session.voice.speak(babble(3.0))
        await clock.advance(1.4)
        session.interrupt()
        await clock.advance(1.0)
        session.end(EndReason.DELETED)
        await clock.advance(0.1)
        await task
        moved = steps(sink.videos)
        starts = [round(event.at_s * 25) for event in sink.named("speaking_started")]
        ends = [round(event.at_s * 25) for event in sink.named("speaking_finished")]
        assert len(starts) == len(ends) == 2
        speech = np.concatenate([moved[a + 5 : b] for a, b in zip(starts, ends, strict=True)])
        changes = {
            "still to loop": moved[1:35],
            "loop to speech": np.concatenate([moved[a - 6 : a + 2] for a in starts]),
            "speech to loop": moved[ends[0] : ends[0] + 34],
            "interruption": moved[ends[1] : ends[1] + 24],
        }
        assert speech.max() > 0.5, "it really spoke"
        for name, change in changes.items():
            assert change.max() <= speech.max(), f"{name}: {change.max():.2f}, in speech {speech.max():.2f}"
        assert session.stats().frames_repeated == 0

    asyncio.run(scene())


def test_a_session_in_real_time(avatar: Avatar, quick: LiveSettings) -> None:
    async def scene() -> None:
        stages, sink = LocalStages(lambda _: avatar), RecordingSink()
        meter = StageMeter(stages)
        loops = IdleLoops(meter, quick)
        try:
            await loops.warm(avatar)
            drawn = meter.calls.total()
            session = LiveSession(
                "s", meter, avatar, loops, sink, quick, SessionSettings(), Drive.PUSH, 3, MonotonicClock()
            )
            task = asyncio.create_task(session.run())
            session.connected()
            async with asyncio.timeout(200):
                await sink.until(lambda: len(sink.videos) >= 20)
                assert meter.calls.total() == drawn, "an idle face costs no stage call"
                session.voice.speak(babble(0.8))
                await sink.until(lambda: bool(sink.named("speaking_finished")))
            session.end(EndReason.DELETED)
            assert await task is EndReason.DELETED
            assert [tick.index for tick in sink.videos] == list(range(len(sink.videos)))
            assert sink.named("speaking_finished")[0].position_s == pytest.approx(0.8)
            assert meter.calls["motion_diffusion"] > 0
        finally:
            await loops.close()
            stages.close()

    asyncio.run(scene())
