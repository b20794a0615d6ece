"""Features of a file's next hops: asked for together, for spoken hops alone, and with the same motion in the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from kernels.arrays import F32
from kernels.errors import LiveAnchorError
from pipeline.config import SilenceSettings
from pipeline.mini.behaviour import MINI_BEHAVIOUR
from pipeline.session.speech_motion import HOPS_AHEAD, SpeechMotion
from pipeline.stages import StageInfo
from pipeline.types import AudioChunk, FeatureRows, MotionChunk
from tests.support.fake_stages import HOP, FakeStages

AHEAD = replace(FakeStages().info, passes_rows_on=True)


@dataclass
class SlowEars(FakeStages):
    """Features take a moment and tell what was heard; counts how many calls are under way."""

    info: StageInfo = AHEAD
    hearing: int = 0
    most: int = 0
    broken_from: int = 1 << 30
    stuck_from: int = 1 << 30

    async def audio_features(self, window: F32, first_row: int) -> FeatureRows:
        self.hearing += 1
        self.most = max(self.most, self.hearing)
        try:
            for _ in range(3):
                await asyncio.sleep(0)
            if first_row >= self.broken_from:
                raise LiveAnchorError("the stage is gone")
            if first_row >= self.stuck_from:
                await asyncio.Event().wait()
            await super().audio_features(window, first_row)
            return FeatureRows(np.full((2 * HOP, 4), window.sum(), np.float32), 50, first_row)
        finally:
            self.hearing -= 1

    async def motion_diffusion(self, rows: FeatureRows, carry: object) -> tuple[MotionChunk, object]:  # type: ignore[override]  # any carry will do
        return MotionChunk(np.full((HOP, 265), rows.rows[0, 0], np.float32), rows.first_row // 2), carry


def speech() -> F32:
    said = 0.3 * np.sin(np.arange(90_000) * 0.2) * (1 + np.arange(90_000) / 1e5)
    said[:5000] = said[40_000:62_000] = 0.0
    return said.astype(np.float32)


async def blocks(pcm: F32, size: int) -> AsyncIterator[AudioChunk]:
    for start in range(0, len(pcm), size):
        yield AudioChunk(pcm[start : start + size], start)


async def motion_of(stages: FakeStages, size: int = 16_000) -> F32:
    made = SpeechMotion(stages, SilenceSettings(hold_frames=2), 1, behaviour=MINI_BEHAVIOUR)
    return np.concatenate([hop.motion async for hop in made.run(blocks(speech(), size))])


@pytest.mark.parametrize("size", [640, 16_000, 100_000])
def test_the_same_calls_are_made_and_the_same_motion_comes_out(size: int) -> None:
    ahead, behind = SlowEars(), SlowEars(info=FakeStages().info)
    motion, want = asyncio.run(motion_of(ahead, size)), asyncio.run(motion_of(behind, size))
    np.testing.assert_array_equal(motion, want)
    assert sorted(ahead.windows) == sorted(behind.windows)
    for row, window in behind.windows.items():
        np.testing.assert_array_equal(ahead.windows[row], window)
    assert behind.most == 1 and {640: 1, 16_000: 3, 100_000: HOPS_AHEAD}[size] <= ahead.most <= HOPS_AHEAD


def test_who_leaves_early_leaves_no_call_behind() -> None:
    async def scene() -> None:
        stages = SlowEars(stuck_from=4 * 2 * HOP)
        run = SpeechMotion(stages, SilenceSettings(hold_frames=2), 1, behaviour=MINI_BEHAVIOUR).run(
            blocks(speech(), 100_000)
        )
        async for hop in run:
            if hop.first_frame >= 2 * HOP:
                break
        assert stages.hearing
        await run.aclose()
        assert not stages.hearing and len(asyncio.all_tasks()) == 1

    asyncio.run(scene())


def test_a_call_that_fails_ahead_fails_at_its_turn() -> None:
    with pytest.raises(LiveAnchorError, match="gone"):
        asyncio.run(motion_of(SlowEars(broken_from=3 * 2 * HOP), 100_000))
