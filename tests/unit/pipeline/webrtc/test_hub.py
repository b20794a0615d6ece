"""The hub without any peer: pacing of the voice, failure, epoch, and what happens after the end."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from kernels.errors import InvalidInputError, LiveAnchorError
from pipeline.config import EncoderSettings
from pipeline.live.contracts import LiveEvent, VideoTick, VoiceTick
from pipeline.live.settings import RtcSettings
from pipeline.media.encoder_select import EncoderSelector
from pipeline.types import Nv12Canvas
from pipeline.webrtc.hub import LiveHub
from pipeline.webrtc.packets import QueueClosed
from tests.support.rtc import ENCODER, RTC, grey_canvas, number_of, numbered_rect, until


def spoken(index: int, samples: int = 640) -> VoiceTick:
    return VoiceTick(np.zeros(samples, np.float32), index * samples, False)


def test_a_voice_tick_of_40_ms_leaves_as_two_packets_20_ms_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        hub = LiveHub(grey_canvas(), 25, ENCODER, RTC)
        queue = hub.subscribe("audio")
        loop, said, say = asyncio.get_running_loop(), [], hub._thread.say

        def record(tick: VoiceTick) -> None:
            said.append((loop.time(), tick.pts_samples, len(tick.pcm)))
            say(tick)

        monkeypatch.setattr(hub._thread, "say", record)
        hub.voice(spoken(0))
        assert len(said) == 1
        first, second = await queue.get(), await queue.get()
        assert [one[1:] for one in said] == [(0, 320), (320, 320)] and said[1][0] - said[0][0] >= 0.015
        assert second.timestamp - first.timestamp == 960
        await hub.close()

    asyncio.run(body())


def test_a_voice_tick_that_comes_early_does_not_overtake_the_rest_of_the_one_before() -> None:
    async def body() -> None:
        hub = LiveHub(grey_canvas(), 25, ENCODER, RTC)
        queue = hub.subscribe("audio")
        for index in range(10):
            hub.voice(spoken(index))
        await until(lambda: len(queue) == 20)
        times = [(await queue.get()).timestamp for _ in range(20)]
        assert np.array_equal(np.diff(times), np.full(19, 960))
        await hub.close()

    asyncio.run(body())


def test_20_ms_ticks_are_not_cut_and_nobody_listening_means_no_work() -> None:
    async def body() -> None:
        hub = LiveHub(grey_canvas(), 50, ENCODER, RTC)
        hub.voice(spoken(0, 320))
        assert not hub._thread.started
        queue = hub.subscribe("audio")
        hub.voice(spoken(1, 320))
        assert (await queue.get()).timestamp == 320 * 3 - 312
        assert hub._rest is None
        await hub.close()

    asyncio.run(body())


def test_the_epoch_is_media_time_zero_by_the_least_late_tick_and_stays_once_told() -> None:
    async def body() -> None:
        late = iter([0.5, 0.0, 0.25, 0.0])
        times = iter([1_000_000.0, 1_000_000.25, 1_000_000.5, 1_000_000.75])
        hub = LiveHub(grey_canvas(), 4, ENCODER, RTC, wall_clock=lambda: next(times) + next(late))
        assert hub.epoch_ntp() is None
        for index in range(3):
            hub.video(VideoTick(4 + index, 1 + index / 4, None))
        assert hub.epoch_ntp() == (999_999 + 2_208_988_800) << 32
        hub._wall_clock = lambda: 0.0
        hub.video(VideoTick(8, 2.0, None))
        assert hub.epoch_ntp() == (999_999 + 2_208_988_800) << 32
        await hub.close()

    asyncio.run(body())


def test_an_encoder_that_fails_is_told_once_on_the_loop() -> None:
    async def body() -> None:
        told: list[LiveAnchorError] = []
        hub = LiveHub(
            grey_canvas(),
            25,
            EncoderSettings(prefer="nvenc"),
            RTC,
            selector=EncoderSelector(probe=lambda: "none here"),
            on_failure=told.append,
        )
        hub.subscribe("video")
        hub.video(VideoTick(0, 0.0, None))
        await until(lambda: bool(told))
        for index in range(1, 10):
            hub.video(VideoTick(index, index / 25, None))
        assert hub.failure is told[0] and len(told) == 1 and "NVENC" in str(told[0])
        await hub.close()

    asyncio.run(body())


def test_the_callers_picture_is_not_painted_on() -> None:
    async def body() -> None:
        canvas = grey_canvas()
        hub = LiveHub(canvas, 25, ENCODER, RTC)
        hub.subscribe("video")
        hub.video(VideoTick(0, 0.0, numbered_rect(0xFFFF)))
        await until(lambda: hub.stats().frames_encoded == 1)
        assert (canvas.y_plane == 126).all()
        await hub.close()

    asyncio.run(body())


def test_after_the_end_everything_is_quietly_ignored() -> None:
    async def body() -> None:
        hub = LiveHub(grey_canvas(), 25, ENCODER, RTC)
        heard: list[LiveEvent] = []
        stop = hub.listen(heard.append)
        event = LiveEvent("connected", "s", 0, 0.0)
        hub.event(event)
        queue = hub.subscribe("video")
        hub.video(VideoTick(0, 0.0, None))
        hub.voice(spoken(0))
        await hub.close()
        await hub.close()
        hub.video(VideoTick(1, 0.04, None))
        hub.voice(spoken(1))
        hub.event(event)
        hub.request_key()
        stop()
        with pytest.raises(QueueClosed):
            await queue.get()
        with pytest.raises(QueueClosed):
            await hub.subscribe("audio").get()
        assert heard == [event] and hub.stats().viewers == 0

    asyncio.run(body())


def test_the_level_follows_size_rate_and_bit_rate() -> None:
    async def body() -> None:
        for (width, height), fps, level in (
            ((1080, 1920), 25, "4.0"),
            ((1080, 1920), 50, "4.2"),
            ((512, 512), 25, "3.0"),
        ):
            canvas = Nv12Canvas(np.zeros((height, width), np.uint8), np.zeros((height // 2, width), np.uint8))
            hub = LiveHub(canvas, fps, ENCODER, RTC)
            assert hub.level == level
            await hub.close()
        with pytest.raises(InvalidInputError):
            LiveHub(grey_canvas(), 0, ENCODER, RTC)

    asyncio.run(body())


def test_an_unwatched_hub_encodes_nothing_and_begins_with_a_key_frame() -> None:
    async def body() -> None:
        hub = LiveHub(grey_canvas(), 25, ENCODER, RtcSettings())
        for index in range(3):
            hub.video(VideoTick(index, index / 25, numbered_rect(index)))
        await until(lambda: number_of(hub._thread._canvas.y_plane) == 2)  # the last one is painted
        assert hub.stats().frames_encoded == 0
        queue = hub.subscribe("video")
        hub.video(VideoTick(3, 0.12, numbered_rect(3)))
        unit = await queue.get()
        assert unit.key and unit.timestamp == 3 * 3600 and hub.stats().frames_encoded == 1
        await hub.close()

    asyncio.run(body())
