"""The session: hops, silence bypass, fades, chunks, credits, cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest

from engines.motion_layout import EXP
from kernels.arrays import F32
from pipeline.config import SessionSettings, SilenceSettings
from pipeline.mini.behaviour import MINI_BEHAVIOUR
from pipeline.mini.idle_motion import idle_motion
from pipeline.session.clip_session import rechunk, run_session, stride_two
from pipeline.session.idle_fade import MOUTH_FADE_FRAMES, POSE_FADE_FRAMES, IdleFade
from pipeline.session.speech_motion import SpeechMotion
from pipeline.types import AudioChunk, MotionChunk, Nv12RectBatch
from tests.support.fake_stages import HOP, SPOKEN, FakeStages


def tone(samples: int, amplitude: float = 0.3) -> F32:
    return (amplitude * np.sin(np.arange(samples) * 0.2)).astype(np.float32)


async def source(pcm: F32, block: int = 1000) -> AsyncIterator[AudioChunk]:
    for start in range(0, len(pcm), block):
        yield AudioChunk(pcm[start : start + block], start)


async def motion_of(pcm: F32, stages: FakeStages, block: int = 1000, seed: int = 1) -> tuple[F32, SpeechMotion]:
    speech = SpeechMotion(stages, SilenceSettings(hold_frames=2), seed, behaviour=MINI_BEHAVIOUR)
    hops = [hop async for hop in speech.run(source(pcm, block))]
    assert [hop.first_frame for hop in hops] == [HOP * i for i in range(len(hops))]
    return (np.concatenate([hop.motion for hop in hops]) if hops else np.zeros((0, 265), np.float32)), speech


@pytest.mark.parametrize("samples", [1, 639, 640, 641, 5119, 5120, 5121, 16_000, 33_333])
def test_as_many_frames_as_the_audio_is_long(samples: int) -> None:
    motion, _ = asyncio.run(motion_of(tone(samples), FakeStages()))
    assert len(motion) == -(-samples // 640)


def test_no_samples_give_no_frames() -> None:
    assert len(asyncio.run(motion_of(tone(0), FakeStages()))[0]) == 0


def test_silence_calls_no_neural_stage_and_plays_idle_motion() -> None:
    stages = FakeStages()
    motion, speech = asyncio.run(motion_of(np.zeros(16_000 * 5, np.float32), stages))
    assert not stages.windows and speech.neural_hops == 0
    np.testing.assert_array_equal(motion, idle_motion(1, 0, 125))


def test_windows_hold_context_hop_and_lookahead() -> None:
    stages, pcm = FakeStages(), tone(16_000)
    asyncio.run(motion_of(pcm, stages))
    context, look = stages.info.context_samples, stages.info.lookahead_samples
    padded = np.concatenate([np.zeros(context, np.float32), pcm, np.zeros(HOP * 640 + look, np.float32)])
    for first_row, window in stages.windows.items():
        start = first_row * 320
        np.testing.assert_array_equal(window, padded[start : start + len(window)])


@pytest.mark.parametrize("block", [1, 7 * 16, 640, 5120, 100_000])
def test_how_the_audio_is_cut_changes_nothing(block: int) -> None:
    pcm = np.concatenate([np.zeros(9_000, np.float32), tone(12_000), np.zeros(30_000, np.float32), tone(3_001)])
    if block == 1:
        pcm = pcm[:11_000]
    reference, _ = asyncio.run(motion_of(pcm, FakeStages(), block=len(pcm)))
    again, _ = asyncio.run(motion_of(pcm, FakeStages(), block=block))
    np.testing.assert_array_equal(again, reference)


def test_speech_is_seen_ahead_and_the_end_fades_into_idle() -> None:
    stages = FakeStages()
    pcm = np.concatenate([np.zeros(5120 * 2, np.float32), tone(5120), np.zeros(5120 * 6, np.float32)])
    motion, speech = asyncio.run(motion_of(pcm, stages))
    assert sorted(stages.windows) == [16, 32, 48], "the hop before speech looks ahead, the one after holds"
    idle = idle_motion(1, 0, len(motion))
    spoken = np.flatnonzero(np.all(motion == SPOKEN, axis=1))
    end = spoken[-1] + 1
    residual = np.abs(motion - idle)
    assert residual[end, 210] < np.abs(SPOKEN - idle[end - 1, 210])
    np.testing.assert_array_equal(motion[end + MOUTH_FADE_FRAMES :, 202:], idle[end + MOUTH_FADE_FRAMES :, 202:])
    np.testing.assert_allclose(motion[end + POSE_FADE_FRAMES :], idle[end + POSE_FADE_FRAMES :])
    assert speech.idle_hops == len(motion) // HOP - 3


def test_a_fade_starts_where_the_speech_ended_and_never_jumps() -> None:
    idle = np.zeros((40, 265), np.float32)
    fade = IdleFade.from_pose(np.ones(265, np.float32), idle[0], 8, EXP)
    pose = fade.apply(idle, 8)[:, 1]
    assert 0.9 < pose[0] < 1.0 and np.all(np.diff(pose) <= 0) and pose[-1] == 0.0
    np.testing.assert_array_equal(
        np.concatenate([fade.apply(idle[:5], 8), fade.apply(idle[5:], 13)]), fade.apply(idle, 8)
    )


async def hops_of(lengths: list[int]) -> AsyncIterator[MotionChunk]:
    first = 0
    for n in lengths:
        yield MotionChunk(np.arange(first, first + n, dtype=np.float32)[:, None].repeat(265, 1), first)
        first += n


@pytest.mark.parametrize("size", [4, 8, 16, 25])
@pytest.mark.parametrize("need_following", [False, True])
def test_chunks_have_their_size_and_lose_nothing(size: int, need_following: bool) -> None:
    async def run() -> list[tuple[MotionChunk, bool]]:
        return [pair async for pair in rechunk(hops_of([8, 8, 8, 8, 3]), size, need_following)]

    chunks = asyncio.run(run())
    frames: list[float] = []
    for chunk, has_following in chunks:
        own = chunk.motion[:-1] if has_following else chunk.motion
        assert chunk.first_frame == len(frames)
        if has_following:
            assert chunk.motion[-1, 0] == chunk.first_frame + len(own)
        frames.extend(own[:, 0])
    assert frames == list(range(35)) and not chunks[-1][1]
    assert all(len(c.motion) == size + int(need_following) for c, _ in chunks[:-1])


def test_stride_two_needs_one_hop_more_and_keeps_even_frames() -> None:
    async def run() -> F32:
        return np.concatenate([hop.motion async for hop in stride_two(hops_of([8, 8, 5]))])

    motion = asyncio.run(run())
    np.testing.assert_array_equal(motion[0::2, 0], np.arange(0, 21, 2))
    np.testing.assert_allclose(motion[1::2, 202], np.arange(1, 21, 2))


async def consume(settings: SessionSettings, stages: FakeStages, samples: int = 16_000 * 2) -> list[Nv12RectBatch]:
    return [batch async for batch in run_session(source(tone(samples)), stages, "a", settings, 0, MINI_BEHAVIOUR)]


@pytest.mark.parametrize(("fps", "frames"), [(25, 50), (50, 100)])
def test_a_session_draws_every_frame_in_order(fps: int, frames: int) -> None:
    stages = FakeStages()
    batches = asyncio.run(consume(SessionSettings.model_validate({"fps": fps}), stages))
    assert sum(len(batch) for batch in batches) == frames
    assert [r.motion.first_frame for r in stages.requests] == list(range(0, 50, 8))
    assert all((r.following is None) == (fps == 25 or r is stages.requests[-1]) for r in stages.requests)


@pytest.mark.parametrize(("credits", "for_files", "most"), [(2, None, 2), (2, 6, 6)])
def test_no_more_work_in_flight_than_credits(credits: int, for_files: int | None, most: int) -> None:
    async def run() -> int:
        stages = FakeStages(render_gate=asyncio.Event(), announce_at=most)
        settings = SessionSettings(credits=credits, file_credits=for_files)
        task = asyncio.create_task(consume(settings, stages, 16_000 * 10))
        await stages.announced.wait()
        for _ in range(50):
            await asyncio.sleep(0)
        assert stages.render_gate is not None
        stages.render_gate.set()
        await task
        return stages.peak

    assert asyncio.run(run()) == most


def test_leaving_early_cancels_what_is_in_flight() -> None:
    async def run() -> FakeStages:
        stages = FakeStages(render_gate=asyncio.Event())
        task = asyncio.create_task(consume(SessionSettings(), stages, 16_000 * 10))
        await stages.announced.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return stages

    assert asyncio.run(run()).in_flight == 0
