"""Sessions and files of Ditto avatars that share replicas: batched through the graph's own batcher, interrupted, never mixed up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from deployments.graph.batcher import Batcher
from deployments.graph.errors import StaleEpochError
from kernels.arrays import F32
from pipeline.config import SilenceSettings
from pipeline.ditto.audio_features import LOOKAHEAD_SAMPLES, DittoAudioFeatures
from pipeline.ditto.feature_windows import ONLINE_LEAD
from pipeline.ditto.motion_diffusion import DittoMotionCarry
from pipeline.ditto.motion_modes import DittoMotionModes
from pipeline.ditto.stages import stage_info
from pipeline.session.behaviour import behaviour_of
from pipeline.session.clip_motion import clip_motion, clip_start
from pipeline.session.speech_motion import SpeechMotion
from pipeline.session.spoken_motion import SpokenMotion, set_up, window_of
from pipeline.stages import AudioFacts, MotionFacts, MotionItem
from pipeline.types import AudioChunk, Avatar, FeatureRows
from tests.support.ditto_avatar import still_avatar, video_avatar
from tests.support.ditto_motion import stage
from tests.unit.pipeline.ditto.test_stages import clip_mode, encode_all, tone


class Shared:
    """Two stage replicas as `StageWorker` runs them: whatever waits goes through the model together."""

    def __init__(self) -> None:
        audio, motion = DittoAudioFeatures(encode_all), DittoMotionModes(stage(), clip_mode)
        self.info = stage_info(
            AudioFacts(ONLINE_LEAD, LOOKAHEAD_SAMPLES), MotionFacts(motion.hop_frames, motion.history_frames)
        )
        self.batches: list[int] = []

        async def run_audio(items: Sequence[Any]) -> Sequence[Any]:
            return [audio.windows([item])[0] for item in items]

        async def run_motion(items: Sequence[Any]) -> Sequence[Any]:
            self.batches.append(len(items))
            await asyncio.sleep(0)  # others queue meanwhile, as while a network runs
            return motion.steps(items)

        limits: dict[str, Any] = {"max_batch_size": 8, "max_queued": 99, "clock": time.monotonic}
        self.audio: Batcher[Any, Any] = Batcher("audio_features", run_audio, **limits)
        self.motion: Batcher[Any, Any] = Batcher("motion_diffusion", run_motion, **limits)

    def session(self, name: str, epoch: int = 0) -> Any:
        return SharedStages(self, name, epoch)


class SharedStages:
    """One session's calls."""

    def __init__(self, shared: Shared, name: str, epoch: int) -> None:
        self.info, self._shared = shared.info, shared
        self._call: dict[str, Any] = {"session_id": name, "remaining_ms": 60_000, "epoch": epoch}

    async def audio_features(self, window: F32, first_row: int) -> FeatureRows:
        rows: FeatureRows = await self._shared.audio.submit((window, first_row), **self._call)
        return rows

    async def motion_diffusion(self, rows: FeatureRows, carry: Any) -> Any:
        return await self._shared.motion.submit(MotionItem(rows, carry), **self._call)


async def source(pcm: F32) -> AsyncIterator[AudioChunk]:
    for start in range(0, len(pcm), 1600):
        yield AudioChunk(pcm[start : start + 1600], start)


async def live(shared: Shared, name: str, avatar: Avatar, pcm: F32, seed: int) -> F32:
    motion = SpeechMotion(shared.session(name), SilenceSettings(), seed, behaviour=behaviour_of(avatar))
    return np.concatenate([hop.motion async for hop in motion.run(source(pcm))])


async def file(shared: Shared, name: str, avatar: Avatar, pcm: F32, seed: int) -> F32:
    start = clip_start(avatar, seed, len(pcm), "auto")
    assert start is not None
    return np.concatenate([chunk.motion async for chunk in clip_motion(pcm, shared.session(name), start)])


def test_sessions_and_files_that_share_batches_equal_lone_ones() -> None:
    still, moving = still_avatar(), video_avatar(3)
    pause = np.zeros(640 * 25, np.float32)
    cases = [
        (live, still, tone(640 * 30), 3),
        (live, moving, np.concatenate([tone(640 * 12), pause, tone(640 * 9)]), 4),
        (file, still, tone(640 * 90), 5),
        (file, moving, tone(640 * 33)[::-1].copy(), 6),
    ]

    async def together() -> tuple[list[F32], list[int]]:
        shared = Shared()
        runs = [run(shared, f"s{i}", avatar, pcm, seed) for i, (run, avatar, pcm, seed) in enumerate(cases)]
        return list(await asyncio.gather(*runs)), shared.batches

    async def alone(index: int) -> F32:
        run, avatar, pcm, seed = cases[index]
        return await run(Shared(), "alone", avatar, pcm, seed)

    made, batches = asyncio.run(together())
    assert max(batches) >= 2, "nothing was shared"
    for i, motion in enumerate(made):
        single = asyncio.run(alone(i))
        assert len(motion) == -(-len(cases[i][2]) // 640)
        assert np.abs(motion - single).max() <= 1e-5 * np.abs(single).max()
    assert np.abs(made[0][:20] - made[2][:20]).max() > 1e-3


async def utterance(stages: Any, carry: Any, pcm: F32, first_frame: int, hops: int) -> tuple[list[F32], Any]:
    spoken, made = SpokenMotion(stages, carry), []
    info = stages.info
    for hop in range(hops):
        frame = first_frame + hop * info.hop_frames
        start, length = window_of(info, hop * info.hop_frames, info.hop_frames)
        window = np.zeros(length, np.float32)
        known = pcm[max(start, 0) : start + length]
        window[max(-start, 0) : max(-start, 0) + len(known)] = known
        made.append((await spoken.hop(window, frame)).motion)
    return made, spoken._carry


@pytest.mark.parametrize("avatar", [still_avatar(), video_avatar(3)], ids=["picture", "video"])
def test_nothing_of_what_was_cut_off_is_left_after_an_interruption(avatar: Avatar) -> None:
    """Two sessions say different things and are cut off in the same pose: what they say next is the same, bit for bit."""
    behaviour = behaviour_of(avatar)

    async def interrupted(words: F32, pose: F32) -> tuple[F32, DittoMotionCarry]:
        shared = Shared()
        idle = behaviour.idle(7, -2, 2)
        prepared = await set_up(shared.session("s"), behaviour.start(7, idle, 0, 0, None))
        said, _ = await utterance(shared.session("s"), behaviour.start(7, idle, 0, 0, prepared), words, 0, 3)
        assert np.abs(said[-1][-2:] - pose).max() > 1e-4
        start: Any = behaviour.start(7, pose, 15, 1, prepared)
        assert start.epoch == 1 and not len(start.pending) and not len(start.rows)
        after, carry = await utterance(shared.session("s", epoch=1), start, tone(640 * 30), 15, 3)
        return np.concatenate(after), carry

    pose = behaviour.idle(7, 13, 2) + np.float32(0.01)
    one, carry = asyncio.run(interrupted(tone(640 * 20), pose))
    other, _ = asyncio.run(interrupted(tone(640 * 20)[::-1].copy() * 0.3, pose))
    np.testing.assert_array_equal(one, other)
    assert carry.epoch == 1 and carry.next_frame == 30
    moved = asyncio.run(interrupted(tone(640 * 20), pose * 3))[0]
    assert np.abs(moved[0] - one[0]).max() > 1e-3, "it begins where the viewer sees the face"


def test_a_call_of_before_the_interruption_is_dropped_and_disturbs_nobody() -> None:
    avatar = still_avatar()

    async def run() -> tuple[F32, F32]:
        shared, behaviour = Shared(), behaviour_of(avatar)
        idle = behaviour.idle(7, -2, 2)
        prepared = await set_up(shared.session("s"), behaviour.start(7, idle, 0, 0, None))
        fresh = behaviour.start(7, idle, 0, 1, prepared)
        rows = await shared.session("s").audio_features(np.zeros(6480, np.float32), 0)
        old: Any = behaviour.start(7, idle, 0, 0, prepared)
        blocker = asyncio.create_task(shared.session("other").motion_diffusion(rows, replace(old, seed=1)))
        await asyncio.sleep(0)
        stale = asyncio.create_task(shared.session("s").motion_diffusion(rows, old))
        await asyncio.sleep(0)
        new, _ = await shared.session("s", epoch=1).motion_diffusion(rows, fresh)
        with pytest.raises(StaleEpochError):
            await stale
        await blocker
        alone, _ = await Shared().session("s").motion_diffusion(rows, fresh)
        return new.motion, alone.motion

    new, alone = asyncio.run(run())
    np.testing.assert_allclose(new, alone, rtol=1e-5, atol=1e-7)
