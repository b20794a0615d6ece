"""A live session's life on a fake clock: idle, speech, ends, and what they cost."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from kernels.arrays import F32
from kernels.errors import InvalidInputError
from pipeline.live.contracts import Drive, EndReason, LiveState
from pipeline.live.settings import LiveSettings
from pipeline.live.speech_queue import QueueFullError
from tests.support.live import FakeClock, LiveFakeStages, live, mark_of, settle, spoken_frame, tone


def run(coroutine: object) -> None:
    asyncio.run(coroutine)  # type: ignore[arg-type]


@pytest.mark.parametrize("fps", [25, 50])
def test_an_idle_session_ticks_without_any_stage_call(fps: int) -> None:
    async def scene() -> None:
        async with live(fps=fps) as stage:
            await stage.clock.advance(20.0)
            videos, voices = stage.sink.videos, stage.sink.voices
            assert [tick.index for tick in videos] == list(range(20 * fps + 1))
            assert [tick.pts_s for tick in videos[:: 10 * fps]] == [0.0, 10.0, 20.0]
            assert all(round(tick.pts_s * 90_000) == pytest.approx(tick.pts_s * 90_000, abs=1e-6) for tick in videos)
            assert [voice.pts_samples for voice in voices] == [i * 16_000 // fps for i in range(20 * fps + 1)]
            assert not any(voice.speech or voice.pcm.any() for voice in voices)
            assert not stage.stages.requests and not stage.session.stats().stage_calls
            assert stage.session.state is LiveState.IDLE
            rects = [tick.rect for tick in videos if tick.rect is not None]
            assert len({id(rect) for rect in rects}) <= 100 * fps // 25, "the same pictures again and again"
            assert stage.session.stats().fps_out == pytest.approx(fps)

    run(scene())


def test_the_first_picture_comes_at_once_even_while_the_loop_is_being_drawn() -> None:
    async def scene() -> None:
        async with live(connect=False, warm=False) as stage:
            stage.loop_stages.latency_s["renderer"] = 0.5
            await stage.clock.advance(1.0)
            assert not stage.sink.videos, "nobody is there yet"
            stage.session.connected()
            await settle()
            assert stage.sink.videos[0].rect is not None, "and no time has passed"
            await stage.clock.advance(3.0)
            assert all(tick.rect is None for tick in stage.sink.videos[1:]), "the still picture is sent once"
            await stage.clock.advance(60.0)
            assert stage.sink.videos[-1].rect is not None and not stage.stages.requests

    run(scene())


def heard_speech(pcm: F32) -> tuple[int, int]:
    loud = np.flatnonzero(pcm)
    return int(loud[0]), int(loud[-1]) + 1


@pytest.mark.parametrize("fps", [25, 50])
def test_speech_is_heard_whole_with_its_own_frames_and_idle_returns(fps: int) -> None:
    async def scene() -> None:
        async with live(fps=fps) as stage:
            await stage.clock.advance(3.0)
            pcm = tone(2.0) + 0.01
            utterance = stage.session.voice.speak(pcm)
            await stage.clock.advance(5.0)
            start, stop = heard_speech(stage.sink.heard())
            np.testing.assert_array_equal(stage.sink.heard()[start:stop], pcm)
            assert start - 3 * 16_000 <= 0.25 * 16_000, "heard soon"
            per_frame = fps // 25
            shown = {tick.index: frame for tick in stage.sink.videos if (frame := spoken_frame(tick)) is not None}
            wrong = {index: frame for index, frame in shown.items() if frame * per_frame != index}
            assert not wrong, "no frame repeated, none skipped"
            indices = sorted(shown)
            assert indices == list(range(indices[0], indices[-1] + 1))
            assert indices[0] <= start / 16_000 * fps <= indices[0] + 4 * per_frame, "the mouth is a little early"
            assert not any(tick.late for tick in stage.sink.videos)
            events = [(event.name, event.utterance_id) for event in stage.sink.events[1:]]
            assert events == [("speaking_started", utterance), ("speaking_finished", utterance)]
            assert stage.sink.events[-1].position_s == 2.0 and stage.sink.events[-1].interrupted is False
            assert {mark_of(tick) for tick in stage.sink.videos[-25:]} <= {0.0, None}
            stats = stage.session.stats()
            assert stats.frames_repeated == stats.frames_dropped == 0 and stats.av_offset_ms == 0.0
            assert stats.state == "idle" and stats.utterances == 1

    run(scene())


@pytest.mark.parametrize("latency_s", [0.0, 0.025, 0.05])
def test_pushed_speech_waits_one_frame_and_for_its_stages_and_no_picture_of_it_is_late(latency_s: float) -> None:
    async def scene() -> None:
        async with live() as stage:
            stage.stages.latency_s = dict.fromkeys(("audio_features", "motion_diffusion", "renderer"), latency_s)
            waits: list[float] = []
            for number, phase_s in enumerate((0.0, 0.013, 0.027, 0.039)):  # of a frame
                await stage.clock.advance(2.0 + phase_s)
                asked, ticks = stage.clock.now() - 100.0, len(stage.sink.videos)
                stage.session.voice.speak(tone(0.6))
                await stage.clock.advance(1.6)
                heard = next(v.pts_samples for v in stage.sink.voices[ticks:] if v.speech) / 16_000
                seen = next(v.index for v in stage.sink.videos[ticks:] if spoken_frame(v) is not None) / 25
                waits.append(heard - asked)
                most = 0.04 if number else 0.12  # before the first one nobody knows how long the stages take
                assert 0.04 - 1e-6 <= heard - seen <= most + 1e-6, "the mouth begins before the sound"
            computing = max(0.08, 1.25 * 3 * latency_s)
            assert waits[0] <= 0.24 and all(
                0.04 + computing - 1e-6 <= wait <= 0.08 + computing for wait in waits[1:]
            ), waits
            assert stage.session.stats().delay_parts_ms["look_ahead"] == 40
            assert not any(tick.late for tick in stage.sink.videos[90:]), "the first one is over"

    run(scene())


def test_speech_tells_its_flags_and_costs_calls_only_while_it_lasts() -> None:
    async def scene() -> None:
        async with live() as stage:
            stage.session.voice.speak(tone(1.0))
            await stage.clock.advance(3.0)
            flagged = [voice for voice in stage.sink.voices if voice.speech]
            assert len(flagged) in (25, 26) and all(voice.pcm.any() for voice in flagged)
            calls = stage.session.stats().stage_calls
            assert calls["motion_diffusion"] == calls["audio_features"] == len(stage.stages.hops)
            await stage.clock.advance(30.0)
            assert stage.session.stats().stage_calls == calls

    run(scene())


def test_speech_starts_from_the_motion_of_the_loop_that_is_shown() -> None:
    async def scene() -> None:
        async with live() as stage:
            await stage.clock.advance(2.2)
            stage.session.voice.speak(tone(0.5))
            await stage.clock.advance(1.0)
            carry = stage.stages.carries[0]
            loop = stage.session._loop
            first = carry.next_frame
            assert carry.history.shape == (29, 265) and carry.hop_frames == 4
            expected = np.stack([loop.motion_at(frame) for frame in range(first - 29, first)])
            np.testing.assert_array_equal(carry.history, expected)

    run(scene())


def test_queued_utterances_follow_each_other_and_never_mix() -> None:
    async def scene() -> None:
        async with live() as stage:
            parts = [
                np.full(9_000 + 77 * i, 0.1 * (i + 1), np.float32) * np.sign(tone(1.0)[: 9_000 + 77 * i])
                for i in range(3)
            ]
            ids = [stage.session.voice.speak(part) for part in parts]
            await stage.clock.advance(4.0)
            heard = stage.sink.heard()
            start, stop = heard_speech(heard)
            loudness = np.round(np.abs(heard[start:stop]), 3)
            assert [int(np.isclose(loudness, 0.1 * (i + 1)).sum()) for i in range(3)] == [
                int((part != 0).sum()) for part in parts
            ]
            order = [event.utterance_id for event in stage.sink.events[1:]]
            assert order == [ids[0], ids[0], ids[1], ids[1], ids[2], ids[2]]
            assert stop - start < sum(map(len, parts)) + 3 * 640, "without gaps"

    run(scene())


@pytest.mark.parametrize("milliseconds", [7, 13, 33])
def test_pushed_pieces_of_any_size_are_one_utterance(milliseconds: int) -> None:
    async def scene() -> None:
        async with live() as stage:
            pcm = tone(2.0) + 0.01
            size = milliseconds * 16
            for start in range(0, len(pcm), size):
                stage.session.voice.push(pcm[start : start + size])
                await stage.clock.advance(milliseconds / 1000)
            stage.session.voice.finish()
            await stage.clock.advance(2.0)
            start, stop = heard_speech(stage.sink.heard())
            np.testing.assert_array_equal(stage.sink.heard()[start:stop], pcm)
            names = [event.name for event in stage.sink.events[1:]]
            assert names == ["speaking_started", "speaking_finished"]
            assert stage.sink.events[-1].position_s == pytest.approx(2.0, abs=1e-9)
            assert stage.session.stats().frames_repeated == 0
            assert start / 16_000 <= 0.42

    run(scene())


def test_gaps_inside_an_utterance_do_not_flap() -> None:
    async def scene() -> None:
        async with live() as stage:
            for _ in range(4):
                stage.session.voice.push(tone(0.4) + 0.01)
                await stage.clock.advance(0.4 + 0.3)
                assert stage.session.state is LiveState.SPEAKING
            stage.session.voice.finish()
            await stage.clock.advance(2.0)
            names = [event.name for event in stage.sink.events[1:]]
            assert names == ["speaking_started", "speaking_finished"]
            assert stage.sink.events[-1].position_s == pytest.approx(1.6)
            assert stage.session.state is LiveState.IDLE

    run(scene())


@pytest.mark.parametrize("gap", [0.1, 0.3, 0.41, 1.0])
def test_gaps_inside_an_utterance_do_not_click(gap: float) -> None:
    async def scene() -> None:
        async with live() as stage:
            for number in range(4):
                stage.session.voice.push(np.full(6413 + 100 * number, 0.3, np.float32))
                await stage.clock.advance(0.4 + gap)
            stage.session.voice.finish()
            await stage.clock.advance(2.0)
            heard = stage.sink.heard()
            steps = np.abs(np.diff(heard))
            first, last = heard_speech(heard)
            assert steps[first : last - 1].max() < 0.02, "only the very begin and end are as they were sent"
            assert (heard > 0.29).sum() > 0.97 * sum(6413 + 100 * number for number in range(4))

    run(scene())


def test_an_utterance_that_nobody_finishes_ends_by_itself() -> None:
    async def scene() -> None:
        async with live() as stage:
            stage.session.voice.push(tone(0.5))
            await stage.clock.advance(9.0)
            assert stage.session.stats().state == "speaking"
            await stage.clock.advance(3.0)
            assert stage.session.state is LiveState.IDLE and len(stage.sink.named("speaking_finished")) == 1

    run(scene())


@pytest.mark.parametrize("pieces_before", [1, 2, 3])
def test_a_file_that_comes_between_the_pieces_of_an_utterance_does_not_tear_it(pieces_before: int) -> None:
    async def scene() -> None:
        async with live() as stage:
            pieces = [np.full(8000, 0.1 + 0.1 * number, np.float32) for number in range(4)]
            files = [np.full(4800, level, np.float32) for level in (0.6, 0.7)]
            for number, piece in enumerate(pieces):
                open_id = stage.session.voice.push(piece)
                if number + 1 == pieces_before:
                    first, second = (stage.session.voice.speak(pcm) for pcm in files)
                await stage.clock.advance(0.3)
            assert stage.session.voice.finish() == open_id
            await stage.clock.advance(6.0)
            begun = [event.utterance_id for event in stage.sink.named("speaking_started")]
            over = [(event.utterance_id, event.position_s) for event in stage.sink.named("speaking_finished")]
            assert begun == [open_id, first, second]
            assert over == [(open_id, pytest.approx(2.0)), (first, pytest.approx(0.3)), (second, pytest.approx(0.3))]
            heard = stage.sink.heard()
            levels = np.round(heard[heard > 0.05], 3)
            order = [float(levels[0]), *levels[1:][np.diff(levels) != 0]]
            assert order == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.6, 0.7])

    run(scene())


def test_a_file_behind_an_utterance_that_nobody_finishes_is_heard_after_it() -> None:
    async def scene() -> None:
        async with live() as stage:
            left = stage.session.voice.push(tone(0.5))
            file = stage.session.voice.speak(tone(0.4))
            await stage.clock.advance(9.0)
            assert stage.session.stats().utterances == 1 and stage.session.waiting_s == pytest.approx(0.4)
            await stage.clock.advance(4.0)
            assert [event.utterance_id for event in stage.sink.named("speaking_finished")] == [left, file]

    run(scene())


def test_an_interruption_drops_an_open_utterance_and_the_file_behind_it() -> None:
    async def scene() -> None:
        async with live() as stage:
            stage.session.voice.push(tone(3.0))
            stage.session.voice.speak(tone(1.0))
            await stage.clock.advance(1.0)
            stage.session.interrupt()
            assert stage.session.waiting_s == 0
            fresh = stage.session.voice.push(tone(0.4))
            stage.session.voice.finish()
            await stage.clock.advance(3.0)
            assert stage.sink.named("speaking_started")[-1].utterance_id == fresh

    run(scene())


def test_too_much_speech_is_refused_and_the_wrong_drive_says_so() -> None:
    async def scene() -> None:
        async with live(settings=LiveSettings(max_queued_speech_s=1.0)) as stage:
            with pytest.raises(QueueFullError, match="at most 1 s"):
                stage.session.voice.speak(tone(1.5))
            stage.session.voice.push(tone(0.8))
            with pytest.raises(QueueFullError):
                stage.session.voice.push(tone(0.8))
            with pytest.raises(InvalidInputError, match="0 samples"):
                stage.session.voice.speak(tone(0.0))
        async with live(Drive.MIC) as stage:
            for refused in (stage.session.voice.speak, stage.session.voice.push):
                with pytest.raises(InvalidInputError, match="microphone"):
                    refused(tone(0.1))

    run(scene())


def test_hostile_samples_are_heard_as_silence() -> None:
    async def scene() -> None:
        async with live() as stage:
            stage.session.voice.speak(np.array([np.nan, np.inf, -np.inf, 0.5] * 1000, np.float32))
            stage.session.voice.speak(np.zeros(1, np.float32))
            stage.session.voice.push(np.zeros(0, np.float32))
            await stage.clock.advance(2.0)
            assert np.isfinite(stage.sink.heard()).all() and stage.sink.heard().max() == 0.5
            assert len(stage.sink.named("speaking_finished")) == 2

    run(scene())


@pytest.mark.parametrize(
    ("settings", "seconds", "reason"),
    [
        (LiveSettings(idle_ttl_s=5.0), 5.2, EndReason.IDLE_TTL),
        (LiveSettings(max_duration_s=7.0), 7.2, EndReason.MAX_DURATION),
    ],
)
def test_sessions_end_by_themselves(settings: LiveSettings, seconds: float, reason: EndReason) -> None:
    async def scene() -> None:
        async with live(settings=settings) as stage:
            await stage.clock.advance(seconds - 0.4)
            assert not stage.task.done()
            await stage.clock.advance(0.4)
            assert stage.task.result() is reason
            assert stage.sink.events[-1].name == "ended" and stage.sink.events[-1].detail == reason.value
            assert stage.session.state is LiveState.ENDED

    run(scene())


def test_speech_keeps_a_session_alive() -> None:
    async def scene() -> None:
        async with live(settings=LiveSettings(idle_ttl_s=2.0)) as stage:
            stage.session.voice.speak(tone(4.0))
            await stage.clock.advance(5.5)
            assert not stage.task.done()
            await stage.clock.advance(1.5)
            assert stage.task.result() is EndReason.IDLE_TTL

    run(scene())


def test_a_client_that_never_comes_is_given_up() -> None:
    async def scene() -> None:
        async with live(connect=False, settings=LiveSettings(connect_timeout_s=4.0)) as stage:
            stage.session.voice.speak(tone(0.5))
            await stage.clock.advance(3.9)
            assert not stage.task.done()
            await stage.clock.advance(0.2)
            assert stage.task.result() is EndReason.CONNECT_TIMEOUT and not stage.sink.videos

    run(scene())


@pytest.mark.parametrize("when", ["connecting", "idle", "speaking"])
@pytest.mark.parametrize("how", ["end", "cancel"])
def test_the_end_frees_everything(when: str, how: str) -> None:
    async def scene() -> None:
        before = asyncio.all_tasks()
        clock = FakeClock()
        stages = LiveFakeStages(clock, latency_s={"renderer": 0.3, "motion_diffusion": 0.05})
        async with live(connect=when != "connecting", stages=stages) as stage:
            await clock.advance(1.0)
            if when == "speaking":
                stage.session.voice.speak(tone(3.0))
                await clock.advance(1.0)
                assert stages.in_flight
            if how == "end":
                stage.session.end(EndReason.PEER_LOST)
                stage.session.end(EndReason.DELETED)
                await clock.advance(0.05)
                assert stage.task.result() is EndReason.PEER_LOST
            else:
                stage.task.cancel()
                await settle()
                assert stage.task.cancelled()
            await settle()
            assert stages.in_flight == 0 and stage.session.state is LiveState.ENDED
            assert len(stage.sink.named("ended")) == 1
            assert asyncio.all_tasks() == before
            assert stage.session.interrupt().utterance_id is None

    run(scene())


def test_time_does_not_move_picture_and_voice_apart() -> None:
    async def scene() -> None:
        async with live(settings=LiveSettings(idle_ttl_s=100_000.0, max_duration_s=100_000.0)) as stage:
            for _ in range(3):
                await stage.clock.advance(300.0)
                stage.session.voice.speak(tone(1.0))
            await stage.clock.advance(2.0)
            for video, voice in zip(stage.sink.videos, stage.sink.voices, strict=False):
                assert voice.pts_samples == video.index * 640 and video.pts_s == video.index / 25
            assert len(stage.sink.named("speaking_finished")) == 3

    run(scene())


def test_a_machine_that_stood_still_does_not_make_up_for_it() -> None:
    async def scene() -> None:
        async with live() as stage:
            await stage.clock.advance(1.0)
            stage.clock.jump(30.0)
            await stage.clock.advance(1.0)
            indices = [tick.index for tick in stage.sink.videos]
            assert indices == list(range(len(indices))) and 49 <= len(indices) <= 53

    run(scene())


def test_speech_that_waits_for_the_client_is_heard_from_its_beginning() -> None:
    async def scene() -> None:
        async with live(connect=False) as stage:
            pcm = tone(1.0) + 0.01
            stage.session.voice.speak(pcm)
            await stage.clock.advance(5.0)
            stage.session.connected()
            await stage.clock.advance(2.0)
            start, stop = heard_speech(stage.sink.heard())
            np.testing.assert_array_equal(stage.sink.heard()[start:stop], pcm)
            assert start <= 0.25 * 16_000 and any(spoken_frame(tick) for tick in stage.sink.videos)

    run(scene())
