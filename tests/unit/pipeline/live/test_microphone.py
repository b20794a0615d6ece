"""A microphone that drives the face: a fixed delay, lips in time, and no growing backlog whatever clock and network do."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import numpy as np
import pytest

from kernels.arrays import F32
from pipeline.live.contracts import Drive, LiveState
from pipeline.live.drift import SETTLE_S, TOLERANCE, WINDOW
from pipeline.live.microphone import SURPLUS_LIMIT, Microphone
from pipeline.live.settings import LiveSettings
from pipeline.live.timeline import CAPACITY, Timeline
from tests.support.live import FakeClock, LiveFakeStages, heard_at_48_khz, live, settle, spoken_frame, tone

HELD_BACK = 24
"""Samples that reading faster or slower and the change of rate hold back at most."""


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


def test_a_timeline_is_silent_where_nothing_was_written() -> None:
    timeline = Timeline()
    timeline.write(100, np.ones(50, np.float32))
    timeline.write(200, np.full(10, 2.0, np.float32))
    expected = np.zeros(300, np.float32)
    expected[100:150], expected[200:210] = 1.0, 2.0
    np.testing.assert_array_equal(timeline.read(0, 300), expected)
    np.testing.assert_array_equal(timeline.read(-20, 140), np.concatenate([np.zeros(20), expected[:120]]))
    with pytest.raises(ValueError, match="ends at 210"):
        timeline.write(209, np.ones(1, np.float32))


def test_a_timeline_keeps_the_newest_samples_only() -> None:
    timeline, rng = Timeline(), np.random.default_rng(0)
    whole = np.zeros(0, np.float32)
    for _ in range(40):
        gap, count = rng.integers(0, 3000, 2)
        piece = rng.standard_normal(count).astype(np.float32)
        timeline.write(len(whole) + gap, piece)
        whole = np.concatenate([whole, np.zeros(gap, np.float32), piece])
        start = max(len(whole) - 20_000, 0)
        np.testing.assert_array_equal(timeline.read(start, 25_000)[: len(whole) - start], whole[start:])
    timeline.write(len(whole) + 10 * CAPACITY, np.ones(5, np.float32))
    assert timeline.read(timeline.end - 100, 200).sum() == 5.0
    assert not timeline.read(timeline.end - CAPACITY, CAPACITY - 5).any()


def test_a_cut_fades_and_what_comes_next_starts_clean() -> None:
    timeline = Timeline()
    timeline.write(0, np.ones(1000, np.float32))
    timeline.cut(400, 100)
    heard = timeline.read(0, 1000)
    assert timeline.end == 500 and (heard[:400] == 1.0).all() and not heard[500:].any()
    assert np.all(np.diff(heard[399:501]) <= 0) and np.abs(np.diff(heard)).max() < 0.02
    timeline.write(700, np.ones(10, np.float32))
    assert not timeline.read(500, 200).any()
    timeline.cut(2000, 100)
    assert timeline.end == 710
    timeline.cut(705, 0)
    assert timeline.end == 705


class Talker:
    """Feeds a microphone whose clock and network are odd.

    Attributes:
        leads: Where the timeline ended after each block, from the present on.
    """

    def __init__(self, delay: int = 5000) -> None:
        self.timeline = Timeline()
        self.microphone = Microphone(self.timeline, delay, quiet_rms=0.005)
        self.place = 0
        self.leads: list[int] = []

    def run(self, seconds: float, ppm: float = 0.0, loud: bool = True, start_s: float = 0.0) -> None:
        """Blocks of 20 ms; every fourth second is quiet."""
        sent = 0
        for step in range(round(seconds * 50)):
            now_s = start_s + (step + 1) * 0.02
            want = round((step + 1) * 960 * (1 + ppm * 1e-6))
            quiet = not loud or int(now_s) % 4 == 3
            self.feed(np.full(want - sent, 0.0 if quiet else 0.1, np.float32), round(now_s * 16_000))
            sent = want

    def feed(self, samples: F32, now: int) -> None:
        """A block that follows on what came last."""
        self.microphone.feed(samples, self.place, now)
        self.place += len(samples)
        self.leads.append(self.timeline.end - now)


def test_a_steady_microphone_keeps_its_delay_to_the_sample() -> None:
    talker = Talker()
    talker.run(20.0)
    assert max(talker.leads) - min(talker.leads) <= 1 and 0 <= 5320 - talker.leads[0] <= HELD_BACK
    assert not talker.microphone.dropped and not talker.microphone.inserted and talker.microphone.drift_ppm == 0


@pytest.mark.parametrize("ppm", [200.0, -200.0, 1000.0])
def test_a_drifting_microphone_is_read_at_its_own_pace(ppm: float) -> None:
    talker = Talker()
    talker.run(240.0, ppm)
    assert talker.microphone.drift_ppm == pytest.approx(ppm, abs=10 + abs(ppm) / 100)
    assert not talker.microphone.dropped and not talker.microphone.inserted
    left = abs(ppm) * 1e-6 * SETTLE_S * 16_000
    assert max(abs(lead - 5320) for lead in talker.leads) <= left + HELD_BACK + 16 + abs(ppm) * 1e-6 * 2 * WINDOW


@pytest.mark.parametrize("ppm", [3000.0, -3000.0])
def test_a_clock_that_is_worse_than_any_sound_card_s_jumps(ppm: float) -> None:
    talker = Talker()
    talker.run(240.0, ppm)
    jumped = talker.microphone.dropped if ppm > 0 else talker.microphone.inserted
    assert TOLERANCE < jumped < 240 * 16_000 * abs(ppm) * 1e-6
    assert (talker.microphone.inserted if ppm > 0 else talker.microphone.dropped) == 0
    assert max(abs(lead - 5320) for lead in talker.leads) <= TOLERANCE + abs(ppm) * 1e-6 * (2 * WINDOW + 4 * 16_000)


def test_late_and_lost_packets_are_no_drift() -> None:
    talker, draw = Talker(), np.random.default_rng(5)
    now = 0.0
    for index in range(6000):
        now = max(now, index * 0.02 / (1 + 200e-6) + draw.exponential(0.004))
        if index and draw.random() < 0.02:
            talker.place += 960
            continue
        talker.feed(np.full(960, 0.1, np.float32), round(now * 16_000))
    assert talker.microphone.drift_ppm == pytest.approx(200, abs=80)
    assert not talker.microphone.dropped and not talker.microphone.inserted


def test_a_hole_is_as_long_as_it_was() -> None:
    talker = Talker()
    for index in range(50):
        if 20 <= index < 30:
            talker.place += 960
            continue
        talker.feed(np.full(960, 0.1, np.float32), (index + 1) * 320)
    heard = talker.timeline.read(320 + 5000, 50 * 320)
    quiet = np.flatnonzero(np.abs(heard[100:-100]) < 0.01) + 100
    assert quiet[0] == pytest.approx(20 * 320, abs=24) and quiet[-1] == pytest.approx(30 * 320, abs=24)
    assert len(quiet) == pytest.approx(10 * 320, abs=48) and talker.microphone.inserted == 0


def test_silence_is_laid_down_while_nothing_comes() -> None:
    talker = Talker()
    talker.run(1.0)
    before = talker.timeline.end
    for step in range(1, 26):  # a second
        talker.place += 1920
        talker.feed(np.zeros(0, np.float32), 16_000 + step * 640)
    assert talker.timeline.end - before == pytest.approx(16_000, abs=2)
    talker.run(3.0, start_s=2.0)
    assert talker.leads[-1] == pytest.approx(5320, abs=HELD_BACK) and talker.microphone.drift_ppm == 0


def test_after_a_cut_nothing_of_before_is_heard_and_the_delay_is_whole() -> None:
    talker = Talker()
    talker.run(1.0)
    talker.timeline.cut(16_000, 160)
    talker.microphone.rest()
    for _ in range(3):
        talker.place += 960
        talker.feed(np.zeros(0, np.float32), 16_000)
    assert talker.timeline.end == 16_160, "silence is laid down for nobody"
    talker.feed(np.full(960, 0.1, np.float32), 16_000)
    assert talker.timeline.end == pytest.approx(16_000 + 5320, abs=HELD_BACK)
    assert not talker.timeline.read(16_160, 5000 - 160).any()


def test_a_changed_delay_is_kept() -> None:
    talker = Talker()
    talker.run(1.0)
    talker.microphone.hear_after(6000)
    talker.run(1.0, start_s=1.0)
    assert talker.leads[50] == pytest.approx(6320, abs=HELD_BACK), "at once"
    assert talker.microphone.inserted == 1000 and talker.microphone.delay == 6000
    talker.microphone.hear_after(4000)
    talker.run(1.0, start_s=2.0)
    assert talker.leads[-1] == pytest.approx(6320, abs=HELD_BACK), "not while there is speech"
    talker.run(10.0, start_s=3.0)
    assert talker.leads[-1] == pytest.approx(4320, abs=HELD_BACK) and talker.microphone.dropped == 2000
    assert talker.microphone.drift_ppm == 0


def test_the_media_clock_stood_still() -> None:
    talker = Talker()
    talker.run(4.0)
    for _ in range(40):  # what came in 0.8 s, and the media clock does not count them
        talker.feed(np.full(960, 0.1, np.float32), 64_000)
    talker.run(8.0, start_s=4.0)
    assert talker.leads[-1] == pytest.approx(5320, abs=HELD_BACK + 16)
    assert talker.microphone.dropped == pytest.approx(40 * 320, abs=16)


def test_surplus_is_dropped_in_a_quiet_moment() -> None:
    talker = Talker()
    talker.run(1.0)
    talker.feed(np.full(4800, 0.1, np.float32), 16_000)
    talker.run(1.5, start_s=1.0)
    assert talker.leads[-1] == pytest.approx(5320 + 1600, abs=HELD_BACK), "not while somebody speaks"
    talker.run(1.5, start_s=2.5)
    assert abs(talker.leads[-1] - 5320) <= 640


def test_a_burst_is_bounded_at_once() -> None:
    talker = Talker()
    talker.run(1.0)
    for _ in range(200):
        talker.feed(np.full(960, 0.1, np.float32), 16_000)
        assert talker.timeline.end - 16_000 <= 5000 + SURPLUS_LIMIT
    assert talker.microphone.dropped > 190 * 320 - SURPLUS_LIMIT


def test_after_a_silence_of_the_network_the_delay_is_the_old_one() -> None:
    talker = Talker()
    talker.run(1.0)
    talker.run(1.0, start_s=7.0)
    assert talker.leads[-1] == pytest.approx(5320, abs=HELD_BACK)


@pytest.mark.parametrize("fps", [25, 50])
@pytest.mark.parametrize("block", [160, 320])
def test_the_voice_comes_back_after_a_fixed_delay_with_its_lips(fps: int, block: int) -> None:
    async def scene() -> None:
        clock = FakeClock()
        stages = LiveFakeStages(clock, latency_s={"motion_diffusion": 0.02, "audio_features": 0.01, "renderer": 0.02})
        async with live(Drive.MIC, fps, stages=stages) as stage:
            pcm = np.concatenate([np.zeros(16_000, np.float32), tone(3.0) + 0.02, np.zeros(32_000, np.float32)])
            await stage.speak_into_microphone(pcm, block)
            loud = np.flatnonzero(np.abs(stage.sink.heard()) > 0.01)
            delay_ms = (loud[0] - 16_000) / 16
            assert delay_ms == pytest.approx(stage.session.stats().delay_ms, abs=block / 16 + 2)
            assert stage.session.stats().delay_ms == pytest.approx(262.5 + 80 + (40 if fps == 50 else 0), abs=1)
            parts = stage.session.stats().delay_parts_ms
            assert parts == {"chunk": 160.0, "look_ahead": 102.5 + (40 if fps == 50 else 0), "compute": 80.0}
            assert loud[-1] - loud[0] == pytest.approx(48_000, abs=40)
            heard, said = stage.sink.heard()[loud[0] + 100 :][:47_000], pcm[16_100:64_000]
            apart = min(float(np.abs(heard - said[shift : shift + len(heard)]).max()) for shift in range(40))
            assert apart < 0.02, "what was said is what is heard"
            shown = {tick.index: frame for tick in stage.sink.videos if (frame := spoken_frame(tick)) is not None}
            per_frame = fps // 25
            assert all(frame * per_frame == index for index, frame in shown.items())
            first, last = loud[0] * fps / 16_000, loud[-1] * fps / 16_000
            assert set(range(int(first) - per_frame, int(last) + 1)) <= set(shown), "every frame of speech was drawn"
            assert stage.session.stats().frames_repeated == 0
            names = [event.name for event in stage.sink.events[1:]]
            assert names == ["speaking_started", "speaking_finished"]
            assert stage.sink.events[-1].position_s == pytest.approx(3.0, abs=0.05)
            assert stage.session.state is LiveState.IDLE
            assert stage.session.stats().fps_in == pytest.approx(25, abs=0.6)

    run(scene())


def test_windows_hold_exactly_what_is_heard() -> None:
    async def scene() -> None:
        async with live(Drive.MIC) as stage:
            await stage.speak_into_microphone(np.zeros(8000, np.float32))
            await stage.speak_into_microphone(tone(1.5))
            await stage.speak_into_microphone(np.zeros(24_000, np.float32))
            heard = np.concatenate([np.zeros(30_000, np.float32), stage.sink.heard(), np.zeros(30_000, np.float32)])
            for first, window in stage.stages.windows.items():
                start = first * 640 - 640 + 30_000
                np.testing.assert_array_equal(window, heard[start : start + len(window)])

    run(scene())


def test_a_silent_microphone_costs_no_stage_calls_and_pauses_do_not_flap() -> None:
    async def scene() -> None:
        noise: F32 = (np.random.default_rng(0).standard_normal(160_000) * 0.002).astype(np.float32)
        async with live(Drive.MIC) as stage:
            await stage.speak_into_microphone(noise)
            assert not stage.session.stats().stage_calls and stage.session.state is LiveState.IDLE
            for _ in range(4):
                await stage.speak_into_microphone(tone(0.5))
                await stage.speak_into_microphone(np.zeros(4_800, np.float32))
            await stage.speak_into_microphone(np.zeros(32_000, np.float32))
            assert [event.name for event in stage.sink.events[1:]] == ["speaking_started", "speaking_finished"]
            calls = stage.session.stats().stage_calls
            await stage.speak_into_microphone(noise[:80_000])
            assert stage.session.stats().stage_calls == calls

    run(scene())


def test_ten_minutes_with_a_fast_microphone() -> None:
    async def scene() -> None:
        async with live(Drive.MIC, settings=LiveSettings(max_duration_s=10_000)) as stage:
            talk = heard_at_48_khz(np.concatenate([tone(3.0), np.zeros(16_000, np.float32)]))
            fed = 0.0
            for second in range(600):
                await stage.clock.advance(1.0)
                fed += 48_000 * (1 + 200e-6)
                place = second % 4 * 48_000
                for part in np.array_split(np.resize(talk[place : place + 48_000], int(fed) - stage.place), 5):
                    stage.hand_over(part)
                await settle()
            stats = stage.session.stats()
            assert stats.queue_depths["speech_ms"] <= stats.delay_ms + 1000 + 60
            assert all(
                voice.pts_samples == video.index * 640
                for video, voice in zip(stage.sink.videos, stage.sink.voices, strict=True)
            )
            assert stage.session.stats().av_offset_ms == 0.0

    run(scene())


def test_slower_stages_get_more_time_before_the_next_sentence() -> None:
    async def scene() -> None:
        clock = FakeClock()
        stages = LiveFakeStages(clock, latency_s={"motion_diffusion": 0.05, "audio_features": 0.01, "renderer": 0.08})
        async with live(Drive.MIC, stages=stages) as stage:
            await stage.speak_into_microphone(tone(2.0))
            await stage.speak_into_microphone(np.zeros(48_000, np.float32))
            assert stage.session.stats().frames_repeated > 0
            before = stage.session.stats()
            assert before.delay_ms == pytest.approx(262.5 + 1.25 * 140, abs=10)
            await stage.speak_into_microphone(tone(2.0))
            await stage.speak_into_microphone(np.zeros(32_000, np.float32))
            assert stage.session.stats().frames_repeated == before.frames_repeated

    run(scene())


def test_who_speaks_without_a_pause_gets_more_time_when_lips_are_late() -> None:
    async def scene() -> None:
        clock = FakeClock()
        stages = LiveFakeStages(clock, latency_s={"motion_diffusion": 0.04, "audio_features": 0.01, "renderer": 0.06})
        async with live(Drive.MIC, stages=stages) as stage:
            await stage.speak_into_microphone(tone(6.0))
            before = stage.session.stats()
            assert 0 < before.frames_repeated < 30 and before.delay_ms > 262.5 + 110
            assert 40 <= before.input_inserted_ms <= 80
            await stage.speak_into_microphone(tone(6.0))
            assert stage.session.stats().frames_repeated == before.frames_repeated

    run(scene())


def test_packets_that_are_handed_over_together_lie_where_they_would_lie_alone() -> None:
    voice = np.random.default_rng(5).normal(0, 0.1, 960 * 300).astype(np.float32)
    alone, together = Talker(), Talker()
    for index in range(300):
        alone.microphone.feed(voice[index * 960 : (index + 1) * 960], index * 960, (index + 1) * 320)
    for index in range(0, 300, 2):
        together.microphone.feed(voice[index * 960 : (index + 2) * 960], index * 960, (index + 2) * 320 + 50, age=370)
    assert alone.timeline.end == together.timeline.end
    start = alone.timeline.end - 90_000
    np.testing.assert_allclose(together.timeline.read(start, 90_000), alone.timeline.read(start, 90_000), atol=1e-6)
    assert together.microphone.drift_ppm == alone.microphone.drift_ppm == 0.0


def test_a_voice_that_waited_too_long_is_not_laid_into_the_past() -> None:
    talker = Talker(delay=1000)
    talker.microphone.feed(np.full(960, 0.1, np.float32), 0, 16_000, age=9_000)
    assert talker.timeline.end == pytest.approx(16_000 + 500 + 320, abs=HELD_BACK)


@pytest.mark.parametrize("fps", [25, 50])
def test_what_is_asked_for_next_completes_a_frame(fps: int) -> None:
    async def scene() -> None:
        async with live(Drive.MIC, fps) as stage:
            needs, voice = stage.stages.info.lookahead_samples, heard_at_48_khz(tone(4.0))
            await stage.speak_into_microphone(tone(0.5))
            last, due = len(stage.stages.hops), stage.session.feed(np.zeros(0, np.float32), stage.place)
            while stage.place < len(voice) - 4_000:
                end = stage.session.voice.microphone.end
                piece = voice[stage.place : stage.place + 3 * due]
                await stage.clock.advance(len(piece) / 48_000)
                due = stage.session.feed(piece, stage.place)
                stage.place += len(piece)
                await settle()
                assert (stage.session.voice.microphone.end - needs) % 640 in (*range(2), 639), (
                    "to the sample, or one off"
                )
                assert stage.session.voice.microphone.end > end
            assert len(stage.stages.hops) > last + 10, "and the hops go on"

    run(scene())
